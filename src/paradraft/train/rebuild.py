"""Makes taps again from tokens: shards whose taps were left out or dropped are fed to the target once more."""

from __future__ import annotations

from dataclasses import replace

from paradraft.core.errors import AlignmentError
from paradraft.core.sampling import SamplingParams
from paradraft.train.manifest import Facts
from paradraft.train.ports import Progress, Speaker, unwatched
from paradraft.train.recorder import Recorder
from paradraft.train.shard_files import Captured
from paradraft.train.shards import ShardReader, ShardWriter


def rebuild_taps(
    writer: ShardWriter, target: Facts, speaker: Speaker, recorder: Recorder, progress: Progress = unwatched
) -> int:
    """Give shards without taps their taps, as far as the writer's limit allows; return how many got them.

    Texts are fed as prompts, so that taps differ from captured ones by rounding alone. Raises AlignmentError if the
    shards are another target's or the recorder taps other layers.
    """
    reader = ShardReader(writer.folder)
    manifest = reader.manifest
    if dict(manifest.target) != dict(target) or manifest.tap_layers != recorder.layers:
        theirs = f"layers {list(manifest.tap_layers)} of {manifest.target.get('name')}"
        raise AlignmentError(
            f"{writer.folder} holds {theirs}, and this is {target.get('name')} with layers {list(recorder.layers)}.",
            remedy="Load the very model, tokenizer and template that were captured.",
        )
    missing = [shard for shard in manifest.shards if shard.taps_sha256 is None]
    num_made = 0
    for done, shard in enumerate(missing):
        progress(done, len(missing))
        if writer.has_room(shard.number, shard.num_tokens * manifest.tap_width * 2):
            tapped = _tapped(reader.shard(shard.number), speaker, recorder)
            num_made += writer.write(shard.number, tapped).taps_sha256 is not None
    progress(len(missing), len(missing))
    return num_made


def _tapped(texts: list[Captured], speaker: Speaker, recorder: Recorder) -> list[Captured]:
    """Return texts with taps; those whose taps are not finite come without."""
    params = [SamplingParams(temperature=0.0, max_tokens=1, seed=seed) for seed in range(len(texts))]
    with recorder.recording():
        speaker.generate([text.ids[:-1].tolist() for text in texts], params)
        return [replace(text, taps=recorder.take(seed, len(text.ids))) for seed, text in enumerate(texts)]
