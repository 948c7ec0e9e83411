#pragma once
#include <filesystem>

namespace tessera {

/// Says what of the folders in a model's folder is not read: modules of sentence-transformers that
/// modules.json lists, each with what `tessera eval embed` has in its place, and all others. Warns
/// where vectors of texts are other ones here.
void tell_unread_folders(const std::filesystem::path& folder);

}  // namespace tessera
