#include "kernel/checkpoint/commit.hpp"

#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/rank_part.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

// Reads what rank `rank` wrote and removes its rank-N.json. Throws Error when the files are not as
// reported: the hosts do not share the folder.
CheckpointIndex read_part(const fs::path& folder, i64 rank, const std::string& proof) {
  const fs::path file = folder / part_name(rank, "json");
  const std::string text = fs::exists(file) ? read_text_file(file) : std::string();
  require(proof_of(text) == proof,
          "rank 0 does not find in {} what rank {} wrote there; all hosts must share the folder",
          folder.string(),
          rank);
  CheckpointIndex part = CheckpointIndex::from_json(text, file.string());
  for (const StoredFile& stored : part.files) {
    const fs::path data = folder / stored.name;
    require(fs::exists(data) && static_cast<i64>(fs::file_size(data)) == stored.bytes,
            "{} is not as rank {} wrote it",
            data.string(),
            rank);
  }
  fs::remove(file);
  return part;
}

}  // namespace

void commit_parts(const CheckpointInfo& info,
                  const std::vector<std::string>& proofs,
                  const fs::path& temporary,
                  const fs::path& target) {
  CheckpointIndex index;
  index.info = info;
  for (std::size_t rank = 0; rank < proofs.size(); ++rank) {
    index.merge(read_part(temporary, static_cast<i64>(rank), proofs[rank]));
  }
  index.check_tiling();
  write_synced(temporary / kIndexName, index.to_json());
  sync_folder(temporary);
  replace_folder(temporary, target);
}

}  // namespace tessera
