#include "kernel/data/build_config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/config/component_tables.hpp"
#include "kernel/config/version.hpp"
#include "kernel/data/corpus_reader.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/bounds.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

constexpr i64 kMostShards = 100'000;

// The tables of `stages`, in order.
std::vector<std::string> stage_tables(const Config& config, TableChecker& checker) {
  const Entry* written = config.tree().find("stages");
  if (written == nullptr) return {};
  constexpr const char* kWanted = "stages is a list of tables: stages = [{type = \"clean\"}]";
  if (written->value) {
    if (*written->value != Value(Value::Array())) checker.problem(written->at, kWanted);
    return {};
  }
  std::vector<std::string> tables;
  const std::vector<std::string> names = config.tree().children("stages");
  for (std::size_t i = 1; i <= names.size(); ++i) {
    const std::string name = fmt::format("{}", i);
    const Entry* entry = config.tree().find("stages." + name);
    if (entry == nullptr || entry->value) {
      checker.problem(written->key, kWanted);
      return {};
    }
    tables.push_back("stages." + name);
  }
  return tables;
}

// What decides about the documents: not where they come from and go to, nor their order.
bool shapes_documents(std::string_view path) {
  return path == "text_field" || path == "id_field" || path.starts_with("tokenizer.") ||
         path.starts_with("stages.");
}

std::string library_mark(const PluginHost& plugins, std::string_view kind, std::string_view type) {
  const PluginOrigin* origin = plugins.origin_of(kind, type);
  return fmt::format("{}/{} {:016x}\n", kind, type, origin->hash);
}

}  // namespace

void BuildKeys::describe(Schema<BuildKeys>& s) {
  s.field("input",
          &BuildKeys::input,
          "files of documents, with * and ?: .jsonl, .ndjson, .json with an object a line; .txt "
          "with one document; each also as .gz and .zst")
      .is_path()
      .required();
  s.field("output", &BuildKeys::output, "prefix of the files that are written")
      .is_path()
      .required();
  s.field("text_field", &BuildKeys::text_field, "the field of a JSON object that has the text");
  s.field("id_field",
          &BuildKeys::id_field,
          "the field that names a document in reports; without it, its file and line do");
  s.field("eod",
          &BuildKeys::eod,
          "end each document with the tokenizer's token for that, in the last of its sequences; "
          "\"auto\": where it has one");
  s.field(
       "shuffle_seed",
       &BuildKeys::shuffle_seed,
       "write the documents in an order that this number decides; \"none\": in that of the input",
       "none")
      .at_least(0)
      .at_most(kMostSeed);
  s.field("shards",
          &BuildKeys::shards,
          "write so many files, of about as many tokens each, which are in their order the same "
          "documents")
      .at_least(1)
      .at_most(kMostShards);
  s.field("threads", &BuildKeys::threads, "threads that work; \"auto\": one for each processor")
      .at_least(1)
      .at_most(kMostThreads);
}

BuildConfig BuildConfig::load(const Config& config, const PluginHost& plugins) {
  BuildConfig out;
  TableChecker checker(config, plugins);
  const std::vector<FieldSpec> fields = fields_of<BuildKeys>();
  checker.check("", fields, {"tokenizer", "stages"});
  const std::string tokenizer = checker.check_component("tokenizer", Tokenizer::kKind);
  const std::vector<std::string> tables = stage_tables(config, checker);
  for (const std::string& table : tables) {
    out.stages.push_back({checker.check_component(table, DocumentStage::kKind), nullptr});
  }
  checker.finish();

  const std::shared_ptr<const ConfigTree> tree = checker.tree();
  read_fields(fields, *make_node(tree, ""), {}, &out.keys);
  if (!config.sources().empty()) out.folder = config.sources().front().folder.string();
  TokenizerArguments of_tokenizer;
  out.tokenizer =
      plugins.make<Tokenizer>(tokenizer, *make_node(tree, "tokenizer"), {}, of_tokenizer);
  std::string identity = version_text() + "\n";
  identity += library_mark(plugins, Tokenizer::kKind, tokenizer) + out.tokenizer->fingerprint();
  for (std::size_t i = 0; i < tables.size(); ++i) {
    BuildConfig::Stage& stage = out.stages[i];
    DocumentStageArguments arguments{
        [&](const std::string& file, const std::function<void(std::string_view)>& use) {
          read_corpus(std::vector{file}, {.text_field = out.keys.text_field}, use);
        }};
    stage.stage =
        plugins.make<DocumentStage>(stage.type, *make_node(tree, tables[i]), {}, arguments);
    if (stage.stage->makes_sequences() && i + 1 < tables.size()) {
      fail_config("{}: stage {} cuts documents into sequences: it has to be the last one, after {}",
                  tables[i],
                  quote(stage.type),
                  quote(out.stages[i + 1].type));
    }
    identity += library_mark(plugins, DocumentStage::kKind, stage.type);
    identity += stage.stage->fingerprint() + "\n";
  }
  for (const auto& [path, entry] : tree->entries()) {
    if (!entry.value || !shapes_documents(path)) continue;
    identity += fmt::format("{} = {}\n", path, entry.value->text());
  }
  out.identity = hash64(identity);
  return out;
}

}  // namespace tessera
