#include "path_tree.h"

namespace paradraft {

PathTree::PathTree(const Sources &sources, const NoiseKey &noise, Camp camp, int32_t depth, const Context &history,
                   const Context &known)
    : sources_(sources), noise_(noise), depth_(depth) {
    Place &root = places_.emplace_back();
    root.camp = std::move(camp);
    root.history = history;
    root.known = known;
}

bool PathTree::has_any() const {
    return sources_.recent != nullptr || sources_.table != nullptr || !is_empty(places_[0].camp);
}

const Law &PathTree::shares(int64_t path, const Pool &pool) {
    Place &place = places_[static_cast<size_t>(path)];
    if (place.is_blended) return place.likeliest;
    const PositionNoise noise = noise_.at(place.depth);
    const PositionNoise *heard = noise_.is_on ? &noise : nullptr;
    std::array<Law, kMaxSources> said;
    for (size_t number = 0; number < sources_.kinds->size(); ++number)
        said[number] = told(place, (*sources_.kinds)[number], heard);
    place.blend = pool.blend(std::move(said), place.depth, heard);
    place.likeliest = place.blend.shares;
    keep_likeliest(place.likeliest);
    place.is_blended = true;
    return place.likeliest;
}

Law PathTree::told(const Place &place, int32_t kind, const PositionNoise *noise) const {
    if (kind == PARADRAFT_RECENT) return sources_.recent->shares(place.history);
    if (kind == PARADRAFT_TABLE) return sources_.table->shares(place.known, sources_.learned, noise);
    return is_empty(place.camp) ? Law() : votes(place.camp, place.depth);
}

int64_t PathTree::descend(int64_t path, int32_t token) {
    for (const auto &[word, below] : places_[static_cast<size_t>(path)].below)
        if (word == token) return below;
    Place next;
    {
        const Place &place = places_[static_cast<size_t>(path)];
        next.depth = place.depth + 1;
        if (next.depth < depth_) next.camp = agreeing(place.camp, place.depth, token);
        next.history = place.history.with(token);
        next.known = place.known.with(token);
    }
    places_.push_back(std::move(next));
    places_[static_cast<size_t>(path)].below.emplace_back(token, size() - 1);
    return size() - 1;
}

uint32_t PathTree::source_of(int64_t path, int32_t token) const {
    const Place &place = places_[static_cast<size_t>(path)];
    uint32_t bits = 0;
    int32_t first = 0;
    for (size_t number = 0; number < sources_.kinds->size(); ++number) {
        const bool is_suffix = (*sources_.kinds)[number] == PARADRAFT_SUFFIX;
        if (find(place.blend.told[number], token) != nullptr)
            bits |= (is_suffix ? bodies_of(place.camp, place.depth, token) : 1u) << first;
        first += is_suffix ? 2 : 1;
    }
    return bits;
}

void PathTree::learn(const int32_t *tokens, int64_t count, Pool &pool) const {
    const Place *place = &places_[0];
    for (int64_t at = 0; at < count && place != nullptr && place->is_blended; ++at) {
        pool.learn(place->blend, tokens[at]);
        const Place *next = nullptr;
        for (const auto &[word, below] : place->below)
            if (word == tokens[at]) next = &places_[static_cast<size_t>(below)];
        place = next;
    }
}

}  // namespace paradraft
