#include "kernel/data/token_tools.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A tool replaces nothing.
void require_new(const std::string& prefix) {
  for (const char* end : {".idx", ".bin", ".report.json"}) {
    std::error_code unknown;
    const fs::path file = prefix + end;
    if (fs::exists(fs::symlink_status(file, unknown))) {
      fail_config("{} is there already; give another prefix", written_path(file));
    }
  }
}

// Of files that become one; not known where it is not known of one of them.
std::string common_tokenizer(const std::vector<TokenFile>& files) {
  std::string common;
  bool all_known = true;
  for (const TokenFile& file : files) {
    const std::string& own = file.tokenizer();
    if (own.empty()) {
      all_known = false;
      continue;
    }
    if (common.empty()) common = own;
    require(common == own,
            "{} was made with tokenizer {}, another file with {}",
            written_path(file.prefix()),
            own,
            common);
  }
  return all_known ? common : "";
}

// The report of what a tool made of other files.
Json made_from(const std::vector<std::string>& from) {
  return Json().add("made_from", Json::array(from));
}

}  // namespace

TokenFileFacts facts_of(const TokenIndex& index) {
  TokenFileFacts facts;
  facts.documents = index.documents();
  facts.sequences = index.sequences();
  facts.tokens = index.tokens();
  facts.shortest = facts.documents > 0 ? std::numeric_limits<i64>::max() : 0;
  for (i64 i = 0; i < facts.documents; ++i) {
    const i64 tokens = index.document_begin(i + 1) - index.document_begin(i);
    facts.empty_documents += tokens == 0 ? 1 : 0;
    facts.shortest = std::min(facts.shortest, tokens);
    facts.longest = std::max(facts.longest, tokens);
  }
  if (facts.documents > 0) {
    facts.mean = static_cast<double>(facts.tokens) / static_cast<double>(facts.documents);
  }
  return facts;
}

TokenFileCheck check_tokens(const TokenFile& file, i64 vocabulary) {
  constexpr i64 kPiece = 1 << 16;
  const i64 end = vocabulary > 0 ? vocabulary : std::numeric_limits<i64>::max();
  std::vector<i64> ids(kPiece);
  TokenFileCheck found;
  const i64 tokens = file.index().tokens();
  if (tokens > 0) found.least = std::numeric_limits<i64>::max(), found.most = ~found.least;
  for (i64 begin = 0; begin < tokens; begin += kPiece) {
    const i64 count = std::min(kPiece, tokens - begin);
    file.copy(begin, count, ids.data());
    for (i64 i = 0; i < count; ++i) {
      const i64 id = ids[static_cast<std::size_t>(i)];
      found.least = std::min(found.least, id);
      found.most = std::max(found.most, id);
      if (id >= 0 && id < end) continue;
      if (found.outside++ > 0) continue;
      found.first_outside = id;
      found.document = file.index().document_at(begin + i);
    }
  }
  return found;
}

void merge_token_files(const std::vector<std::string>& from, const std::string& to) {
  require_new(to);
  std::vector<TokenFile> files;
  for (const std::string& prefix : from)
    files.emplace_back(prefix, "merge", TokenFile::Access::in_turn);
  const std::string tokenizer = common_tokenizer(files);
  TokenFileWriter writer(to, files.front().index().type());
  for (const TokenFile& file : files) writer.add_documents(file, 0, file.index().documents());
  writer.finish(tokenizer, made_from(from));
}

std::vector<ItemRange> split_token_file(const std::string& from,
                                        const Shares& shares,
                                        const std::vector<std::string>& to) {
  if (shares.count() != to.size()) {
    fail_config("{} shares and {} prefixes: one for each was expected", shares.count(), to.size());
  }
  for (const std::string& prefix : to) require_new(prefix);
  const TokenFile file(from, "split", TokenFile::Access::in_turn);
  const std::vector<ItemRange> ranges = shares.of(file.index().documents());
  for (std::size_t i = 0; i < to.size(); ++i) {
    TokenFileWriter writer(to[i], file.index().type());
    writer.add_documents(file, ranges[i].begin, ranges[i].end);
    writer.finish(file.tokenizer(), made_from({from}));
  }
  return ranges;
}

}  // namespace tessera
