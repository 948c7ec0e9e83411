#include "kernel/train/data/data_files.hpp"

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

void require_unchanged(const Dataset& dataset) {
  for (const DataFile* file : dataset.files()) {
    const std::string change = file->change();
    if (change.empty()) continue;
    fail(
        "the file {} changed while it was trained on: {}. Put it back as it was and start again, "
        "which goes on from the newest checkpoint; a run on other data needs another run.out",
        written_path(file->path()),
        change);
  }
}

}  // namespace tessera
