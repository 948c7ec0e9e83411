#include <fmt/format.h>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/data_samples.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/data/token_tools.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/size_text.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

// A tokenizer's words in a report are somebody else's.
std::string shown_tokenizer(const TokenFile& file) {
  return file.tokenizer().empty() ? "not known" : written_plain(file.tokenizer());
}

void show_document(const TokenFile& file, i64 document) {
  const TokenIndex& index = file.index();
  if (document >= index.documents()) {
    fail_config("{} has {} documents, the first is 0; there is no document {}",
                written_path(file.prefix()),
                index.documents(),
                document);
  }
  const i64 begin = index.document_begin(document);
  std::vector<i64> ids(static_cast<std::size_t>(index.document_begin(document + 1) - begin));
  file.copy(begin, static_cast<i64>(ids.size()), ids.data());
  show("{}\n", fmt::join(ids, " "));
}

Json json_of(const TokenFile& file, const TokenFileFacts& facts) {
  return Json()
      .add("type", token_type_name(file.index().type()))
      .add("documents", facts.documents)
      .add("empty_documents", facts.empty_documents)
      .add("sequences", facts.sequences)
      .add("tokens", facts.tokens)
      .add("shortest", facts.shortest)
      .add("longest", facts.longest)
      .add("mean", facts.mean)
      .add("modes", file.index().has_modes())
      .add("tokenizer", file.tokenizer())
      .add("hash", fmt::format("{:016x}", file.hash()));
}

}  // namespace

int run_data_show(const DataShowOptions& options) {
  if (!options.run.empty()) {
    show_samples(options);
    return 0;
  }
  if (options.prefix.empty()) fail_config("give the PREFIX of a token file, or --run and --step");
  const TokenFile file(options.prefix, "show");
  if (options.document >= 0) {
    show_document(file, options.document);
    return 0;
  }
  const TokenFileFacts facts = facts_of(file.index());
  if (options.json) {
    show_exact(json_of(file, facts).text() + "\n");
    return 0;
  }
  show("documents   {}, of which {} are empty\n", facts.documents, facts.empty_documents);
  show("sequences   {}{}\n", facts.sequences, file.index().has_modes() ? ", with modes" : "");
  show("tokens      {}, {} to {} a document, {:.1f} on average\n",
       facts.tokens,
       facts.shortest,
       facts.longest,
       facts.mean);
  show("stored as   {}, {}\n",
       token_type_name(file.index().type()),
       size_text(static_cast<double>(file.index().data_bytes())));
  show("tokenizer   {}\n", shown_tokenizer(file));
  show("hash        {:016x}\n", file.hash());
  return 0;
}

int run_data_verify(const DataVerifyOptions& options) {
  const TokenFile file(options.prefix, "verify", TokenFile::Access::in_turn);
  const TokenFileCheck found = check_tokens(file, options.vocabulary);
  if (found.outside > 0) {
    fail("{}: {} of {} ids are outside {}, the first is {} in document {}",
         written_path(file.prefix()),
         found.outside,
         file.index().tokens(),
         options.vocabulary > 0 ? fmt::format("the vocabulary of {}", options.vocabulary)
                                : "any vocabulary",
         found.first_outside,
         found.document);
  }
  show("{}: {} documents, {} tokens, ids {} to {}: good\n",
       file.prefix(),
       file.index().documents(),
       file.index().tokens(),
       found.least,
       found.most);
  return 0;
}

int run_data_merge(const DataMergeOptions& options) {
  merge_token_files(options.from, options.to);
  const TokenFile file(options.to, "merge");
  show(
      "{}: {} documents, {} tokens\n", options.to, file.index().documents(), file.index().tokens());
  return 0;
}

int run_data_split(const DataSplitOptions& options) {
  const Shares shares(options.shares, "--shares", options.to.size());
  const auto ranges = split_token_file(options.from, shares, options.to);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    show("{}: {} documents\n", options.to[i], ranges[i].size());
  }
  return 0;
}

}  // namespace tessera
