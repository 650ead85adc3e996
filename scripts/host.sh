# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What is needed of the machine that the scripts run on, and what is taken over
# from it: the Debian mirror, the proxies and the certificates. Sourced.

# Check that this machine will do; install what is missing.
check_host()
{
	local missing=()

	[[ $(uname -s) == Linux && $(uname -m) == x86_64 ]] ||
		die "this runs on Linux on x86-64 only, this machine is $(uname -sm)"
	((EUID == 0)) ||
		die "this needs root, for the chroot in which everything is built and run" \
			"run it again as root, for example: sudo make ..."
	command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
	[[ -e /usr/share/keyrings/debian-archive-keyring.gpg ]] ||
		missing+=(debian-archive-keyring)
	if ((${#missing[@]})); then
		command -v apt-get >/dev/null ||
			die "this machine lacks: ${missing[*]}" \
				"on Debian and Ubuntu they would be installed with apt; here install them by hand"
		step "Packages of this machine (${missing[*]})" installed "$CACHE/log/host.log" \
			install_host "${missing[@]}" ||
			die "cannot install ${missing[*]} with apt" \
				"install them by hand and run this again"
	fi
	unshare --mount true 2>/dev/null ||
		die "mount name spaces cannot be used here" \
			"in a container, run it with CAP_SYS_ADMIN (e.g. --privileged)"
}

install_host()
{
	export DEBIAN_FRONTEND=noninteractive
	apt-get install -y --no-install-recommends "$@" || {
		apt-get update
		apt-get install -y --no-install-recommends "$@"
	}
}

# The Debian mirror: MIRROR=, or else the one from which this machine gets
# Debian's main component, or else (print nothing) mmdebstrap's default.
find_mirror()
{
	if [[ ${MIRROR:-} ]]; then
		echo "$MIRROR"
	elif command -v apt-get >/dev/null; then
		# shellcheck disable=SC2016 # for apt-get to expand
		apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
			'Origin: Debian' 'Label: Debian' 'Component: main' 2>/dev/null |
			head -n 1
	fi
}

# What apt on this machine needs to reach the mirror, as lines of apt.conf.
find_apt_options()
{
	command -v apt-config >/dev/null || return 0
	apt-config dump 2>/dev/null |
		grep -E '^Acquire::(https?::.*(Proxy|CAInfo|Verify)|Retries)' || true
}

# The certificate authorities that this machine trusts, if it says so.
find_ca_bundle()
{
	local file
	for file in "${SSL_CERT_FILE:-}" "${CURL_CA_BUNDLE:-}" \
		/etc/ssl/certs/ca-certificates.crt; do
		if [[ -f $file ]]; then
			echo "$file"
			return
		fi
	done
}
