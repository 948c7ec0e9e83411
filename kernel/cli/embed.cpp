#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/eval_layout.hpp"
#include "kernel/cli/prompts.hpp"
#include "kernel/cli/stored_model.hpp"
#include "kernel/cli/text_printer.hpp"
#include "kernel/train/data/embedded_texts.hpp"
#include "kernel/train/run/loaded_model.hpp"
#include "kernel/train/run/sample_scores.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

// Samples that are scored before their texts are printed: memory is for their rows.
constexpr i64 kSamplesAtOnce = 64;

std::string pooling_of(const EvalOptions& options) {
  std::string pooling = "mean";
  for (std::size_t i = 0; i < options.keys.size(); i += 2) {
    if (options.keys[i] != "--pooling" || i + 1 == options.keys.size()) {
      fail_config("eval embed: {} is not known; --pooling mean, cls or none is",
                  written_plain(options.keys[i]));
    }
    pooling = options.keys[i + 1];
  }
  if (pooling == "mean" || pooling == "cls" || pooling == "none") return pooling;
  fail_config("--pooling {}: mean, cls or none", written_plain(pooling));
}

Json numbers(const std::vector<double>& values) { return Json::array(values); }

// The longest text: as many tokens as a sample has places and the model knows positions.
i64 positions_of(const PlacedModel& model, const RunSetup& setup) {
  i64 most = setup.sequence_length;
  for (const ModelParts::Bound& bound : model.parts().bounds()) {
    if (bound.input == "positions") most = std::min(most, bound.values);
  }
  return most;
}

// The rows of a text, [tokens · hidden].
Json embedding(std::span<const float> rows, i64 hidden, const std::string& pooling) {
  const auto row = [&](i64 token) {
    const auto of =
        rows.subspan(static_cast<std::size_t>(token * hidden), static_cast<std::size_t>(hidden));
    return std::vector<double>(of.begin(), of.end());
  };
  if (pooling == "cls") return numbers(row(0));
  const i64 tokens = static_cast<i64>(rows.size()) / hidden;
  if (pooling == "none") {
    Json all = Json::array();
    for (i64 token = 0; token < tokens; ++token) all.push(numbers(row(token)));
    return all;
  }
  std::vector<double> mean(static_cast<std::size_t>(hidden), 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    mean[i % static_cast<std::size_t>(hidden)] += static_cast<double>(rows[i]);
  }
  for (double& value : mean) value /= static_cast<double>(tokens);
  return numbers(mean);
}

void embed(PlacedModel& model,
           const RunSetup& setup,
           const EvalOptions& options,
           const std::string& pooling,
           bool prints) {
  std::vector<std::string> texts;
  for (Prompt& text : read_texts(options.data, "--data", "text", "there is nothing to embed")) {
    texts.push_back(std::move(text.text));
  }
  const EmbeddedTexts samples(
      *setup.tokenizer, texts, setup.sequence_length, positions_of(model, setup));
  if (prints && samples.cut() > 0) {
    log_warning("{} of {} texts have more than {} tokens, and were cut there",
                samples.cut(),
                texts.size(),
                positions_of(model, setup));
  }
  SampleScorer scorer(model, samples);
  std::vector<std::string> lines(texts.size());
  const i64 count = samples.size(SampleSet::test);
  for (i64 begin = 0; begin < count; begin += kSamplesAtOnce) {
    const SampleScores rows =
        scorer.score(SampleSet::test, begin, std::min(kSamplesAtOnce, count - begin));
    const i64 hidden = static_cast<i64>(rows.at(0).size()) / setup.sequence_length;
    if (!prints) continue;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      for (const std::size_t text : samples.texts_of(begin + static_cast<i64>(row))) {
        const EmbeddedTexts::Place& place = samples.places()[text];
        const auto of =
            std::span(rows[row]).subspan(static_cast<std::size_t>(place.first * hidden),
                                         static_cast<std::size_t>(place.tokens * hidden));
        lines[text] = Json()
                          .add("text", texts[text])
                          .add("tokens", place.tokens)
                          .add("embedding", embedding(of, hidden, pooling))
                          .text();
      }
    }
  }
  for (const std::string& line : lines) {
    if (prints) print_now(line + "\n");
  }
}

}  // namespace

int run_embed(const EvalOptions& options) {
  const std::string pooling = pooling_of(options);
  if (options.json)
    fail_config("eval embed: it prints an object a text; --json is for other tasks");
  StoredCommand command{.doing = "embed",
                        .ranks = options.ranks,
                        .use = DataUse::embedding,
                        .changes = {"model.head.type"}};
  command.open = [&] {
    ConfigText settings = eval_layout(options);
    settings.text += "model.head.type = \"token_rows\"\n";
    return StoredModel(options.checkpoint, options.path, options.sets, settings);
  };
  command.work = [&](const StoredModel& model,
                     const RunSetup& setup,
                     const RankIdentity& identity,
                     const RankFailed& failed) {
    LoadedModel loaded(setup, model.folder.string(), identity, "embed", command.changes);
    try {
      embed(loaded.placed(), setup, options, pooling, identity.rank == 0);
    } catch (const std::exception& error) {
      failed(error);
      loaded.rank().abort(error.what());
      throw;
    }
  };
  return run_stored(command);
}

}  // namespace tessera
