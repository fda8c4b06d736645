#!/usr/bin/env bash
# On the GPU node, from the course's folder: install gpu-bundle/ beside the Python that has torch, touching none of its
# packages. They go below sys.prefix, where a grader's sandbox sees them too; where that is not writable, below ~ and
# then `export PYTHONPATH=~/course-site:$PWD`, which this prints, and nothing can be graded in a sandbox.
set -eu
PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/../.."
read -r prefix packages < <(python3 -c 'import sys, sysconfig; print(sys.prefix, sysconfig.get_path("purelib"))')
site=$prefix/course-site
if mkdir -p "$site" 2>/dev/null && [ -w "$packages" ]; then
  printf 'import sys; sys.path.insert(0, "%s")\n' "$site" >"$packages/course_site.pth"
else
  site=$HOME/course-site
  echo "export PYTHONPATH=$site:$PWD"
fi
if ! cmp -s gpu-bundle/bundle.lock "$site/installed.lock"; then # a second call on the same node has nothing to do
  python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$site" gpu-bundle/*.whl
  cp gpu-bundle/bundle.lock "$site/installed.lock"
fi

if ! command -v bwrap >/dev/null && [ -f gpu-bundle/bwrap/bwrap ] && [ -w /usr/local/bin ]; then
  install -m 755 gpu-bundle/bwrap/bwrap /usr/local/bin/bwrap
  for library in $(ldd /usr/local/bin/bwrap | sed -n 's/^\s*\(\S*\) => not found.*/\1/p'); do
    install -m 644 "gpu-bundle/bwrap/$library" /usr/local/lib/
  done
fi
# A sandbox has no LD_LIBRARY_PATH: the driver must be found without it.
driver=$(find /usr/local/nvidia /usr/lib /usr/lib64 -name libcuda.so.1 2>/dev/null | head -n 1)
if [ -n "$driver" ] && [ -w /etc/ld.so.conf.d ] && ! ldconfig -p | grep -q libcuda.so.1; then
  dirname "$driver" >/etc/ld.so.conf.d/course-driver.conf
fi
[ "$(id -u)" != 0 ] || ldconfig
python3 -c 'import torch, triton, nbgrader, compilescope; print("ready: torch", torch.__version__, torch.cuda.device_count(), "GPUs")'
bwrap --unshare-all --ro-bind / / --proc /proc true && echo "ready: $(bwrap --version)" || echo "no sandbox here"
