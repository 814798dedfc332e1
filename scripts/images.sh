#!/usr/bin/env bash
# Renews the digests by which docker/ names its images: the newest of each tag. Needs Docker with buildx.
set -euo pipefail
cd "$(dirname "$0")/../docker"
files=(Dockerfile compose.yaml compose.sqlite.yaml .env.example)
for image in $(grep --no-filename --only-matching --extended-regexp '[a-z0-9./-]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}' "${files[@]}" | sort --unique); do
  tag=${image%%@*}
  digest=$("${DOCKER:-docker}" buildx imagetools inspect "$tag" --format '{{.Manifest.Digest}}')
  [[ "$digest" =~ ^sha256:[0-9a-f]{64}$ ]] || { echo "$tag: Docker answered $digest, expected a digest" >&2; exit 1; }
  sed --in-place "s#$image#$tag@$digest#g" "${files[@]}"
  echo "$tag@$digest"
done
