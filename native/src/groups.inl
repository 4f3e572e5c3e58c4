// Products of weights in whole numbers. Included by linear.inl.
//
// A kind says where the groups of a panel lie, and adds the sums of a group to a chain:
//   chain += (sum * weights' scale) * activations' scale, for int4 then + sum of activations * least weight.

struct Int8Groups {
    using Steps = Int8Steps;
    static constexpr int64_t kOpening = kInt8Units, kInBlock = kInt8Groups, kBlock = kInt8BlockBytes;
    static constexpr int64_t kWeights = kStepBytes;  // of a block, from here on
    static constexpr int64_t kSteps = kGroupWords;   // of a group

    struct Scales {
        Vec scale;
    };
    static Scales read(const uint8_t *block, int64_t group) { return {Steps::numbers(block + group * kPanel)}; }
    static Steps::Sums start(const float *second) { return Steps::start(second); }
    static Vec chained(Vec chain, Steps::Sums sums, const Scales &scales, const float *first, const float *) {
        return multiply_add(multiply(Steps::value(sums), scales.scale), set(*first), chain);
    }
    static Vec finished(Vec chain, const uint8_t *panel) {
        return multiply(chain, load(reinterpret_cast<const float *>(panel)));
    }
};

struct Int4Groups {
    using Steps = Int4Steps;
    static constexpr int64_t kOpening = 0, kInBlock = kInt4Groups, kBlock = kInt4BlockBytes;
    static constexpr int64_t kWeights = 2 * kStepBytes;
    static constexpr int64_t kSteps = kGroupWords / 2;

    struct Scales {
        Vec scale, least;
    };
    static Scales read(const uint8_t *block, int64_t group) {
        const int half = static_cast<int>(group);
        return {Steps::numbers(block, half), Steps::numbers(block + kStepBytes, half)};
    }
    static Steps::Sums start(const float *) { return Steps::none(); }
    static Vec chained(Vec chain, Steps::Sums sums, const Scales &scales, const float *first, const float *second) {
        const Vec scaled = multiply_add(multiply(Steps::value(sums), scales.scale), set(*first), chain);
        return multiply_add(scales.least, set(*second), scaled);
    }
    static Vec finished(Vec chain, const uint8_t *) { return chain; }
};

// M tokens times P panels, from panel `first` of the task on; words, factors and outputs are the tokens' own.
template <class Kind, int M, int P>
struct GroupTile {
    using Steps = typename Kind::Steps;
    static constexpr int64_t kWords = Kind::kSteps * Steps::kParts;                 // of a group
    static constexpr int64_t kTokenWords = kBlockSteps / kGroupWords * kWords;  // that stand together

    static void run(const MultiplyTask &task, int64_t first, const uint32_t *words, const float *factors,
                    float *outputs, const Fetching &fetching) {
        const int64_t bytes = task.panel_bytes, groups = groups_of(task.inputs);
        const uint8_t *panel = task.panels + first * bytes, *block = panel + Kind::kOpening;
        Vec chains[M][P];
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p) chains[m][p] = zero();
        }
        for (int64_t group = 0; group < groups; ++group, factors += 2 * M) {
            const int64_t place = group % Kind::kInBlock;
            if (place == 0 && group > 0) block += Kind::kBlock;
            const uint8_t *step = block + Kind::kWeights + place * Kind::kSteps * kStepBytes;
            const uint8_t *fetched = panel + fetching.distance(task, step - panel, Kind::kBlock);
            typename Steps::Sums sums[M][P];
#pragma GCC unroll 16
            for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
                for (int p = 0; p < P; ++p) sums[m][p] = Kind::start(factors + M + m);
            }
#pragma GCC unroll 8
            for (int64_t i = 0; i < Kind::kSteps; ++i, fetched += fetching.stride) {
#pragma GCC unroll 4
                for (int p = 0; p < P; ++p) prefetch_far(fetched + p * bytes);
#pragma GCC unroll 2
                for (int part = 0; part < Steps::kParts; ++part) {
                    typename Steps::Weights weights[P];
#pragma GCC unroll 4
                    for (int p = 0; p < P; ++p) weights[p] = Steps::read(step + i * kStepBytes + p * bytes, part);
#pragma GCC unroll 16
                    for (int m = 0; m < M; ++m) {
                        const uint32_t *word = words + m * kTokenWords + i * Steps::kParts + part;
#pragma GCC unroll 4
                        for (int p = 0; p < P; ++p) sums[m][p] = Steps::sum(sums[m][p], weights[p], word);
                    }
                }
            }
            words += group % 2 == 0 ? kWords : M * kTokenWords - kWords;
            typename Kind::Scales scales[P];
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p) {
                prefetch_far(block + p * bytes + fetching.start);
                scales[p] = Kind::read(block + p * bytes, place);
            }
#pragma GCC unroll 16
            for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
                for (int p = 0; p < P; ++p)
                    chains[m][p] = Kind::chained(chains[m][p], sums[m][p], scales[p], factors + m, factors + M + m);
            }
        }
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p)
                put(task, (first + p) * kPanel, Kind::finished(chains[m][p], panel + p * bytes),
                    outputs + m * task.stride + p * kPanel);
        }
    }
};
