#!/usr/bin/env bash
# Gather what an air-gapped GPU node lacks into gpu-bundle/: wheels of the lock for its Python, without torch and triton.
#   bundle.sh PYTHON_VERSION [NAME...]      such as 3.12, or 3.12.3 for no older one; NAME: packages the node has already
# On the node:  bash tests/gpu/node.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$1
shift
here="ruff mypy mypy-extensions ast-serialize librt playwright axe-playwright-python greenlet pyee types-pygments types-psutil"
here="$here types-pyyaml dask dask-jobqueue distributed pytest-xdist execnet"
platforms=()
for tag in 2_5 2_12 2_17 2_24 2_27 2_28 2_31 2_34; do platforms+=(--platform "manylinux_${tag}_x86_64"); done
for tag in manylinux1 manylinux2010 manylinux2014; do platforms+=(--platform "${tag}_x86_64"); done
rm -rf gpu-bundle
mkdir gpu-bundle
python3 tests/gpu/lock_for.py "$version" torch triton $here "$@" >gpu-bundle/bundle.lock
python3 -m pip download --quiet --no-deps --only-binary=:all: --implementation cp --python-version "$version" \
  "${platforms[@]}" --dest gpu-bundle --requirement gpu-bundle/bundle.lock
if program=$(command -v bwrap); then # grading in a sandbox needs it, and a bare node has none
  mkdir gpu-bundle/bwrap
  cp "$program" $(ldd "$program" | sed -n 's/.*=> \(\/\S*lib\(cap\|selinux\|pcre2-8\)\.so\S*\).*/\1/p') gpu-bundle/bwrap/
fi
echo "gpu-bundle: $(ls gpu-bundle/*.whl | wc -l) wheels, $(du -sh gpu-bundle | cut -f1), for Python $version on Linux x86-64"
