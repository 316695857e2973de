# Shared by the scripts beside it; sourced, not run. Sets `root`, the top of the checkout.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Installs the packages named in the given list files, if any of them is missing.
install_missing() {
  command -v dpkg-query >/dev/null || return 0  # not a Debian: trust that the user has them
  local wanted missing=() package
  wanted=$(cat "$@" | sed 's/#.*//' | tr -s ' \n' '\n' | sed '/^$/d')
  for package in $wanted; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  apt_install "${missing[@]}"
}

apt_install() {
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "these packages are missing: $*. Install them as root: apt-get install $*"
    sudo=(sudo)
  fi
  say "installing $*"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

# configure PRESET [cmake arguments...]: only when there is no build yet or arguments are given.
configure() {
  local preset=$1
  shift
  [ -f "$root/build/$preset/build.ninja" ] && [ $# -eq 0 ] && return 0
  say "configuring ($preset)"
  (cd "$root" && cmake --preset "$preset" "$@" >&2)
}

# build PRESET [targets...]
build() {
  local preset=$1
  shift
  (cd "$root" && cmake --build --preset "$preset" ${1:+--target "$@"} >&2)
}
