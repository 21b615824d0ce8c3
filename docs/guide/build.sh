#!/bin/sh
# Builds the guide: the pages as they stand in the tree, made into a book by mdBook.
#
#   docs/guide/build.sh FOLDER MDBOOK    `make guide` calls it so; the book is FOLDER/book
#
# The pages keep their folders, so their links lead to the same places as on a forge and in
# PREFIX/share/doc/kolo. What is copied is what bindings/install.sh puts there.
set -eu
folder=$1
case $2 in */*) mdbook=$(realpath "$2") ;; *) mdbook=$2 ;; esac
mkdir -p "$folder"
folder=$(realpath "$folder")
cd "$(dirname "$0")/../.."

rm -rf "$folder/src" "$folder/book"
for file in README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT slurm/README.md \
    bindings/c/include/kolo.h $(find docs examples -type f ! -name '*.o' ! -name '*.mod' \
        ! -name '*.toml' ! -name '*.css' ! -path docs/guide/build.sh); do
    install -D -m 644 "$file" "$folder/src/$file"
done
# The table of contents stands at the top there: its links begin at another folder.
sed 's,](\.\./,](/,; s,](\([^/]\),](docs/\1,; s,](/,](,' docs/SUMMARY.md >"$folder/src/SUMMARY.md"
rm "$folder/src/docs/SUMMARY.md"
cp docs/guide/book.toml docs/guide/guide.css "$folder"
"$mdbook" build "$folder"
# mdBook's own is a copy of the first page, whose links do not fit its folder.
echo '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>kolo</title>' \
    '<meta http-equiv="refresh" content="0; url=docs/guide/start.html"></head>' \
    '<body><a href="docs/guide/start.html">The guide</a></body></html>' >"$folder/book/index.html"
