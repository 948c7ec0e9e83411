#include "corpus.hpp"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <system_error>

#include "content_hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {
namespace {

// What a pattern finds, by name; a file of that very name is no pattern.
std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  const int code = ::glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  std::vector<std::string> files(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (code != 0) fail_config("data.path: no file matches \"{}\"", pattern);
  return files;
}

/// Files in the order of `paths`; those of a folder or a pattern by name, which every rank sorts
/// alike.
std::vector<std::string> expand(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    const bool pattern = path.find_first_of("*?[") != std::string::npos;
    if (pattern && !std::filesystem::exists(path, error)) {
      for (std::string& file : matches(path)) files.push_back(std::move(file));
      continue;
    }
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

Corpus::Corpus(const Choices& choices, const Tokenizer& tokenizer)
    : bytes_are_ids_(tokenizer.bytes_are_ids()) {
  for (std::string& path : expand(choices.paths)) files_.emplace_back(std::move(path), "data.path");
  std::vector<std::string_view> texts;
  for (const DataFile& file : files_) texts.push_back(file.text());
  split_ = split_documents(texts, choices.share, choices.key);
  if (!bytes_are_ids_) {
    encode(choices, tokenizer);
    return;
  }
  if (choices.eod) fail_config("data.eod = true, and tokens are bytes, of which none ends a text");
  for (const std::string_view text : texts) hash_ = content_hash(text, hash_);
  for (const Piece& piece : pieces()) add(piece, {});
}

std::vector<Piece> Corpus::pieces() const {
  std::vector<Piece> all;
  auto piece = split_.pieces.begin();
  for (std::size_t file = 0; file < files_.size(); ++file) {
    if (files_[file].text().empty()) all.push_back({file, "", false});
    for (; piece != split_.pieces.end() && piece->file == file; ++piece) all.push_back(*piece);
  }
  return all;
}

// Kept are the number of ids of each piece, then all ids.
void Corpus::encode(const Choices& choices, const Tokenizer& tokenizer) {
  const std::vector<Piece> all = pieces();
  const std::optional<i32> eod = choices.eod ? tokenizer.special_ids().eod : std::nullopt;
  if (choices.eod && !eod) {
    fail_config("data.eod = true, and the tokenizer has no token that ends a document ({})",
                tokenizer.fingerprint());
  }
  std::string what =
      fmt::format("{} {} {}", tokenizer.fingerprint(), eod.value_or(-1), split_hash());
  if (choices.special == SpecialTexts::parsed) what += " parsed";
  u64 decides = content_hash(what, 0);
  std::size_t bytes = 0;
  for (const DataFile& file : files_) {
    decides = content_hash(file.text(), decides);
    bytes += file.text().size();
  }
  const auto make = [&] {
    constexpr std::size_t kMany = 16 << 20;
    if (bytes > kMany) log_info("data.path: {} MB of text become tokens", bytes >> 20);
    std::vector<i64> counts;
    std::vector<i32> ids;
    const auto encoder = tokenizer.encoder(choices.special);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t before = ids.size();
      encoder->append(all[i].text, ids);
      const bool last = i + 1 == all.size() || all[i + 1].file != all[i].file;
      if (eod && last) ids.push_back(*eod);
      counts.push_back(static_cast<i64>(ids.size() - before));
    }
    std::string made(reinterpret_cast<const char*>(counts.data()), counts.size() * sizeof(i64));
    return made.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(i32));
  };
  const auto counts_in = [&](std::string_view kept) {
    return std::span(reinterpret_cast<const i64*>(kept.data()), all.size());
  };
  const auto valid = [&](std::string_view kept) {
    if (kept.size() < all.size() * sizeof(i64)) return false;
    const auto counts = counts_in(kept);
    const i64 ids = std::accumulate(counts.begin(), counts.end(), i64{0});
    return kept.size() == all.size() * sizeof(i64) + static_cast<std::size_t>(ids) * sizeof(i32);
  };
  kept_ = std::make_unique<KeptBytes>(
      choices.keep_in, fmt::format("text-{:016x}.ids", decides), make, valid);
  const std::string_view kept = kept_->bytes();
  const auto* ids = reinterpret_cast<const i32*>(kept.data() + all.size() * sizeof(i64));
  const i64 vocabulary = tokenizer.vocabulary();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::span own(ids, static_cast<std::size_t>(counts_in(kept)[i]));
    for (const i32 id : own) {
      require(id >= 0 && id < vocabulary,
              "the tokenizer gave the id {} for \"{}\", outside its vocabulary of {}",
              id,
              written_path(files_[all[i].file].path()),
              vocabulary);
    }
    // Two vocabularies of one size may give a text other tokens.
    if (i == 0 || all[i].file != all[i - 1].file) {
      hash_ = content_hash(files_[all[i].file].text(), hash_);
    }
    hash_ = content_hash({reinterpret_cast<const char*>(own.data()), own.size_bytes()}, hash_);
    add(all[i], own);
    ids += own.size();
  }
}

void Corpus::add(const Piece& piece, std::span<const i32> ids) {
  Sequence& to = piece.validation ? validation_ : training_;
  if (bytes_are_ids_) to.texts.push_back(piece.text);
  if (!bytes_are_ids_) to.ids.push_back(ids);
  const std::size_t tokens = bytes_are_ids_ ? piece.text.size() : ids.size();
  to.starts.push_back(to.starts.back() + static_cast<i64>(tokens));
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
  auto at = static_cast<std::size_t>(std::ranges::upper_bound(from.starts, begin) -
                                     from.starts.begin() - 1);
  for (; count > 0; ++at) {
    const auto first = static_cast<std::size_t>(begin - from.starts[at]);
    const i64 here = std::min(count, from.starts[at + 1] - begin);
    const auto wanted = static_cast<std::size_t>(here);
    if (bytes_are_ids_) {
      const std::string_view text = from.texts[at].substr(first, wanted);
      out = std::ranges::transform(text, out, [](char c) { return i64{static_cast<u8>(c)}; }).out;
    } else {
      out = std::ranges::copy(from.ids[at].subspan(first, wanted), out).out;
    }
    begin += here;
    count -= here;
  }
}

}  // namespace tessera
