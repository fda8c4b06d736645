#!/usr/bin/env bash
# On the GPU node, from the course's folder: install gpu-bundle/ beside the Python that has torch, touching none of its
# packages. They go below sys.prefix, where a grader's sandbox sees them too; where that is not writable, below ~ with
# the variables that this prints then, and nothing can be graded in a sandbox. Afterwards `python3 -m autograder lab`
# opens the course and tests/gpu/run_all.sh runs it.
set -eu
PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/../.."
stop() { echo "$1" >&2 && exit 1; }
[ -f gpu-bundle/bundle.lock ] || stop "There is no gpu-bundle/ here. Where there is a network: make gpu-bundle; then copy this folder again."
IFS=$'\t' read -r prefix packages has torch < <(python3 -c '
import importlib.util, sys, sysconfig
has = "%d.%d" % sys.version_info[:2]
print(sys.prefix, sysconfig.get_path("purelib"), has, importlib.util.find_spec("torch") is not None, sep="\t")')
wanted=$(sed -n 's/^# for Python \([0-9]*\.[0-9]*\).*/\1/p' gpu-bundle/bundle.lock)
[ "$torch" = True ] || stop "python3 here, of $prefix, has no torch. Activate the environment that has it, then call this again."
[ "$wanted" = "$has" ] ||
  stop "gpu-bundle/ is for Python $wanted, and python3 here is $has. Where there is a network: make gpu-bundle NODE_PYTHON=$has"
site=$prefix/course-site
if mkdir -p "$site" 2>/dev/null && [ -w "$packages" ]; then
  printf 'import sys; sys.path.insert(0, "%s")\n%s\n' "$site" "$PWD" >"$packages/course_site.pth"
else
  prefix=
  site=$HOME/course-site
  echo "export PYTHONPATH=$site:$PWD JUPYTERLAB_DIR=$site/share/jupyter/lab \\"
  echo "  JUPYTER_PATH=$site/share/jupyter JUPYTER_CONFIG_PATH=$site/etc/jupyter"
fi
if ! cmp -s gpu-bundle/bundle.lock "$site/installed.lock"; then # a second call on the same node has nothing to do
  python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$site" gpu-bundle/*.whl
  cp gpu-bundle/bundle.lock "$site/installed.lock"
fi
for part in ${prefix:+share etc}; do # where Jupyter looks for its own files; what the node has stays as it is
  ours=$site/$part/jupyter theirs=$prefix/$part/jupyter
  if [ ! -e "$theirs" ]; then
    mkdir -p "$prefix/$part"
    ln -sfn "$ours" "$theirs"
  elif [ -d "$ours" ] && [ ! "$ours" -ef "$theirs" ]; then
    cp -rn "$ours/." "$theirs"
  fi
done

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
