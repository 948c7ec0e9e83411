#include "kernel/train/run/resolved_file.hpp"

#include "kernel/checkpoint/disk.hpp"
#include "tessera/io/utf8.hpp"
#include "tessera/observer.hpp"

namespace tessera {

bool ResolvedFile::is_of_this_run() const { return exists() && read_text_file(file_) == text_; }

void ResolvedFile::replace() const {
  set_aside(file_.string());
  write_synced(file_, text_);
}

bool is_utf8(std::string_view text) {
  while (const std::size_t length = character_length(text)) text.remove_prefix(length);
  return text.empty();
}

}  // namespace tessera
