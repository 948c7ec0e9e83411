#include "corpus.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "content_hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

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
    if (error) fail_config("data.path: cannot list \"{}\": {}", path, SystemError(error));
    if (found.empty()) fail_config("data.path: the folder \"{}\" has no *.txt files", path);
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace

Corpus::Corpus(const std::vector<std::string>& paths,
               const Tokenizer& tokenizer,
               SpecialTexts special,
               double share,
               u64 key)
    : bytes_are_ids_(tokenizer.bytes_are_ids()) {
  for (std::string& path : expand(paths)) files_.emplace_back(std::move(path), "data.path");
  std::vector<std::string_view> texts;
  for (const DataFile& file : files_) texts.push_back(file.text());
  split_ = split_documents(texts, share, key);
  auto piece = split_.pieces.begin();
  for (std::size_t file = 0; file < texts.size(); ++file) {
    hash_ = content_hash(texts[file], hash_);
    if (texts[file].empty()) add({file, "", false}, tokenizer, special);
    for (; piece != split_.pieces.end() && piece->file == file; ++piece) {
      add(*piece, tokenizer, special);
    }
  }
}

void Corpus::add(const Piece& piece, const Tokenizer& tokenizer, SpecialTexts special) {
  Sequence& to = piece.validation ? validation_ : training_;
  if (bytes_are_ids_) {
    to.texts.push_back(piece.text);
    to.starts.push_back(to.starts.back() + static_cast<i64>(piece.text.size()));
    return;
  }
  const i64 vocabulary = tokenizer.vocabulary();
  const std::vector<i32> ids = tokenizer.encode(piece.text, special);
  for (const i32 id : ids) {
    require(id >= 0 && id < vocabulary,
            "the tokenizer gave the id {} for \"{}\", outside its vocabulary of {}",
            id,
            written_path(files_[piece.file].path()),
            vocabulary);
  }
  to.ids.insert(to.ids.end(), ids.begin(), ids.end());
  to.starts = {0, static_cast<i64>(to.ids.size())};
  // Two vocabularies of one size may give a text other tokens.
  hash_ =
      content_hash({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(i32)}, hash_);
}

i64 Corpus::documents(SampleSet set) const {
  return set == SampleSet::train ? split_.training : split_.validation;
}

u64 Corpus::split_hash() const {
  std::vector<u64> cuts;
  for (const Piece& piece : split_.pieces) {
    if (!piece.validation) continue;
    const std::string_view whole = files_[piece.file].text();
    cuts.insert(
        cuts.end(),
        {piece.file, static_cast<u64>(piece.text.data() - whole.data()), piece.text.size()});
  }
  return content_hash({reinterpret_cast<const char*>(cuts.data()), cuts.size() * sizeof(u64)}, 0);
}

void Corpus::copy(SampleSet set, i64 begin, i64 count, i64* out) const {
  const Sequence& from = sequence(set);
  if (!bytes_are_ids_) {
    std::copy_n(from.ids.begin() + begin, count, out);
    return;
  }
  auto at = static_cast<std::size_t>(std::ranges::upper_bound(from.starts, begin) -
                                     from.starts.begin() - 1);
  for (; count > 0; ++at) {
    const std::string_view text = from.texts[at].substr(
        static_cast<std::size_t>(begin - from.starts[at]), static_cast<std::size_t>(count));
    out = std::ranges::transform(text, out, [](char c) { return i64{static_cast<u8>(c)}; }).out;
    begin += static_cast<i64>(text.size());
    count -= static_cast<i64>(text.size());
  }
}

}  // namespace tessera
