#include "corpus.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "content_hash.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

/// Files in the order of `paths`; those of a folder by name, which every rank sorts alike.
std::vector<std::string> expand(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
         entry.increment(error)) {
      if (entry->path().extension() == ".txt") found.push_back(entry->path().string());
    }
    if (error) fail_config("data.path: cannot list \"{}\": {}", path, error.message());
    if (found.empty()) fail_config("data.path: the folder \"{}\" has no *.txt files", path);
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace

Corpus::Corpus(const std::vector<std::string>& paths, const Tokenizer& tokenizer)
    : bytes_are_ids_(tokenizer.bytes_are_ids()) {
  for (std::string& path : expand(paths)) files_.emplace_back(std::move(path));
  const i64 vocabulary = tokenizer.vocabulary();
  for (const MappedFile& file : files_) {
    hash_ = content_hash(file.text(), hash_);
    i64 count = static_cast<i64>(file.text().size());
    if (!bytes_are_ids_) {
      const std::vector<i32> ids = tokenizer.encode(file.text());
      for (const i32 id : ids) {
        require(id >= 0 && id < vocabulary,
                "the tokenizer gave the id {} for \"{}\", outside its vocabulary of {}",
                id,
                file.path(),
                vocabulary);
      }
      ids_.insert(ids_.end(), ids.begin(), ids.end());
      // Two vocabularies of one size may make other tokens of one text.
      hash_ = content_hash({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(i32)},
                           hash_);
      count = static_cast<i64>(ids.size());
    }
    starts_.push_back(starts_.back() + count);
  }
}

void Corpus::copy(i64 begin, i64 count, i64* out) const {
  if (!bytes_are_ids_) {
    std::copy_n(ids_.begin() + begin, count, out);
    return;
  }
  auto file = std::upper_bound(starts_.begin(), starts_.end(), begin) - starts_.begin() - 1;
  while (count > 0) {
    const std::string_view text = files_[static_cast<std::size_t>(file)].text();
    const i64 from = begin - starts_[static_cast<std::size_t>(file)];
    const i64 here = std::min(count, static_cast<i64>(text.size()) - from);
    for (i64 i = 0; i < here; ++i)
      out[i] = static_cast<u8>(text[static_cast<std::size_t>(from + i)]);
    out += here;
    begin += here;
    count -= here;
    ++file;
  }
}

}  // namespace tessera
