#include "kernel/data/build.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "kernel/data/build_steps.hpp"
#include "sdk/src/shared/usable_cpus.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/output_file.hpp"
#include "tessera/io/token_file.hpp"
#include "tessera/io/written.hpp"
#include "tessera/permutation.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string removed_file(const std::string& output) { return output + ".removed.jsonl"; }

std::vector<std::string> prefixes_of(const BuildKeys& keys) {
  if (keys.shards == 1) return {keys.output};
  std::vector<std::string> prefixes;
  for (i64 i = 0; i < keys.shards; ++i) {
    prefixes.push_back(fmt::format("{}-{:05}-of-{:05}", keys.output, i, keys.shards));
  }
  return prefixes;
}

std::vector<std::string> written_files(const BuildKeys& keys,
                                       const std::vector<std::string>& prefixes) {
  std::vector<std::string> files = {keys.output + ".report.json", removed_file(keys.output)};
  for (const std::string& prefix : prefixes) {
    for (const char* end : {".idx", ".bin", ".report.json"}) files.push_back(prefix + end);
  }
  return files;
}

void require_new(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    std::error_code unknown;
    if (!fs::exists(fs::symlink_status(file, unknown))) continue;
    fail_config("{} is there already: give another output, or --force to replace it",
                written_path(file));
  }
}

std::optional<i32> end_of_document(const BuildConfig& config) {
  const std::optional<i32> token = config.tokenizer->special_ids().eod;
  if (config.keys.eod && *config.keys.eod && !token) {
    fail_config("eod = true: the tokenizer has no token that ends a document");
  }
  return config.keys.eod.value_or(true) ? token : std::nullopt;
}

// The steps' stages: up to each stage that compares, and after the last one.
std::vector<StepStages> steps_of(const BuildConfig& config) {
  std::vector<StepStages> steps(1);
  for (std::size_t i = 0; i < config.stages.size(); ++i) {
    std::shared_ptr<const DocumentComparison> comparison = config.stages[i].stage->comparison();
    steps.back().end = i;
    if (comparison == nullptr) continue;
    steps.back().next = std::move(comparison);
    steps.push_back({static_cast<i64>(steps.size()), i + 1, i + 1, nullptr});
  }
  steps.back().end = config.stages.size();
  return steps;
}

Json json_of(const TextAmount& amount) {
  return Json()
      .add("documents", amount.documents)
      .add("characters", amount.characters)
      .add("tokens", amount.tokens);
}

Json report_of(const BuildConfig& config,
               const std::vector<InputFile>& files,
               const BuildSummary& summary,
               std::optional<i32> end) {
  Json report;
  report.add("input", Json::array(files, [](const InputFile& file) { return Json(file.shown); }));
  report.add("stages", Json::array(summary.stages, [](const BuildSummary::Stage& stage) {
               return Json()
                   .add("type", stage.type)
                   .add("in", json_of(stage.counts.in))
                   .add("out", json_of(stage.counts.out))
                   .add("changed", stage.counts.changed)
                   .add("removed", stage.counts.removed);
             }));
  report.add("documents", summary.documents).add("tokens", summary.tokens);
  if (end) report.add("eod", static_cast<i64>(*end));
  if (config.keys.shuffle_seed) report.add("shuffle_seed", *config.keys.shuffle_seed);
  return report;
}

// Gives documents in the order of the output.
class OutputOrder {
 public:
  OutputOrder(const ChunkSet& set, const Auto<i64>& seed) : set_(set) {
    if (seed) order_.emplace(set.size(), static_cast<u64>(*seed), u64{0});
  }
  void tokens(i64 place, DocumentTokens& out) {
    if (order_) return set_.tokens((*order_)(place), out);
    while (chunk_ < 0 || place >= set_.first_document(chunk_ + 1)) {
      loaded_.emplace(Chunk::read(set_.file(++chunk_)));
    }
    loaded_->chunk.tokens(place - set_.first_document(chunk_), out);
  }

 private:
  const ChunkSet& set_;
  std::optional<Permutation> order_;
  i64 chunk_ = -1;
  std::optional<Chunk::Loaded> loaded_;
};

void write_removed(const std::string& output, const std::vector<ChunkRow>& rows) {
  const fs::path file = removed_file(output), partial = file.string() + ".partial";
  {
    OutputFile out(partial);
    for (const ChunkRow& row : rows) {
      for (i64 i = 0; i < row.set.chunks(); ++i) {
        out.write(std::string_view(Chunk::read(row.set.file(i)).chunk.removed));
      }
    }
    out.sync();
  }
  fs::rename(partial, file);
}

void write_report(const std::string& output, const std::string& tokenizer, Json report) {
  const fs::path file = output + ".report.json", partial = file.string() + ".partial";
  {
    OutputFile out(partial);
    out.write(std::string_view(report.add("tokenizer", tokenizer).text() + "\n"));
    out.sync();
  }
  fs::rename(partial, file);
}

// The token that ends a document belongs to its last sequence.
void write_document(DocumentTokens& document, std::optional<i32> end, TokenFileWriter& writer) {
  auto& [ids, lengths] = document;
  if (end) ids.push_back(*end);
  if (lengths.empty()) {
    lengths.push_back(static_cast<u32>(ids.size()));
  } else if (end) {
    ++lengths.back();
  }
  std::span<const i32> left = ids;
  for (const u32 length : lengths) {
    writer.add(left.first(length));
    left = left.subspan(length);
  }
  writer.end_document();
}

void write_tokens(const BuildConfig& config,
                  const ChunkSet& set,
                  std::optional<i32> end,
                  const Json& report,
                  BuildSummary& summary) {
  const TokenType type = token_type_for(config.tokenizer->vocabulary());
  const std::string fingerprint = config.tokenizer->fingerprint();
  const i64 shards = config.keys.shards;
  OutputOrder order(set, config.keys.shuffle_seed);
  DocumentTokens document;
  i64 place = 0, tokens = 0;
  for (i64 shard = 0; shard < shards; ++shard) {
    TokenFileWriter writer(summary.prefixes[static_cast<std::size_t>(shard)], type);
    // This shard's share of the tokens, and a document at least for each shard after it.
    const auto share =
        static_cast<i64>(static_cast<double>(summary.tokens) * static_cast<double>(shard + 1) /
                         static_cast<double>(shards));
    const i64 last = set.size() - (shards - shard - 1);
    const bool is_last = shard + 1 == shards;
    for (const i64 first = place; place < last && (is_last || place == first || tokens < share);
         ++place) {
      order.tokens(place, document);
      write_document(document, end, writer);
      tokens += static_cast<i64>(document.ids.size());
    }
    Json about = report;
    if (shards > 1) {
      about = Json()
                  .add("shard", shard)
                  .add("shards", shards)
                  .add("documents", writer.documents())
                  .add("tokens", writer.tokens());
    }
    writer.finish(fingerprint, about);
  }
}

}  // namespace

BuildSummary build_corpus(const BuildConfig& config, bool force) {
  BuildSummary summary;
  summary.prefixes = prefixes_of(config.keys);
  const std::optional<i32> end = end_of_document(config);
  const std::vector<std::string> written = written_files(config.keys, summary.prefixes);
  const std::vector<InputFile> files = input_files(config.keys.input, config.folder, written);
  const fs::path place = config.keys.output + ".build";
  if (!force && !fs::exists(place)) require_new(written);
  const int threads = static_cast<int>(config.keys.threads.value_or(usable_cpus()));
  BuildFolder folder(place);

  const std::vector<StepStages> steps = steps_of(config);
  std::vector<ChunkRow> rows;
  rows.push_back(read_input(config, files, steps[0], folder, threads));
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const Decision decision = decide(rows.back(), steps[i - 1], folder, threads);
    rows.back().set.drop_sketches();
    rows.push_back(go_on(config, rows.back(), decision, steps[i], folder, threads));
  }
  const ChunkRow& last = rows.back();
  for (std::size_t i = 0; i < config.stages.size(); ++i) {
    StageCounts counts;
    for (const ChunkRow& row : rows) counts += row.counts[i];
    summary.stages.push_back({config.stages[i].type, counts});
  }
  summary.documents = last.amount.documents;
  summary.tokens = last.amount.tokens + (end ? last.amount.documents : 0);
  if (summary.documents == 0) {
    if (config.stages.empty()) fail_config("input: there is no document in it");
    fail_config("the stages leave no document: {} would be empty",
                written_path(config.keys.output));
  }
  if (summary.documents < config.keys.shards) {
    fail_config("shards = {}: there are {} documents", config.keys.shards, summary.documents);
  }
  const Json report = report_of(config, files, summary, end);
  if (config.stages.empty()) {
    fs::remove(removed_file(config.keys.output));  // an earlier build's
  } else {
    write_removed(config.keys.output, rows);
  }
  write_tokens(config, last.set, end, report, summary);
  if (config.keys.shards > 1) {
    write_report(config.keys.output, config.tokenizer->fingerprint(), report);
  }
  folder.remove();
  return summary;
}

}  // namespace tessera
