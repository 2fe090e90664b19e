# Sourced by the scripts that install what the tests need: how they fail, where they keep what
# passes, and apt-get as root.

fail() {
  echo "$(basename "$0"): $1" >&2
  exit 1
}

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

# apt-get $@, asking nothing; what it says is in $scratch/apt.
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" \
    > "$scratch/apt" 2>&1
}

# Bring apt's list up to date; fail with $1, other means than apt-get, or for want of root.
begin_apt() {
  command -v apt-get > /dev/null || fail "$1"
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    sudo -n true 2> /dev/null || fail "apt-get needs root: run it with sudo"
    as_root=(sudo -n)
  fi
  # A new machine knows no packages before its first update; one without a network keeps its old.
  apt update || true
}

# Install the packages $@ and nothing that they merely recommend.
add_packages() {
  echo "installing $*"
  apt install --yes --no-install-recommends "$@" || fail "apt-get failed: $(tail -n 1 "$scratch/apt")"
}
