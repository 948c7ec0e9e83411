#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/prompts.hpp"
#include "kernel/cli/stored_model.hpp"
#include "kernel/cli/text_printer.hpp"
#include "kernel/train/run/generator.hpp"
#include "kernel/train/run/growing_text.hpp"
#include "kernel/train/run/text_batch.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

using Tokens = std::vector<std::vector<i32>>;

Tokens encode(const Tokenizer& tokenizer, const std::vector<Prompt>& prompts) {
  Tokens tokens;
  for (const Prompt& prompt : prompts) {
    tokens.push_back(tokenizer.encode(prompt.text, SpecialTexts::parsed));
    if (tokens.back().empty()) fail_config("{}: the tokenizer makes no token of it", prompt.where);
  }
  return tokens;
}

void print_logits(TextSampler& sampler, i64 places, const Tokens& tokens, bool prints) {
  const auto most = static_cast<std::size_t>(places);
  for (std::size_t first = 0; first < tokens.size(); first += most) {
    const std::size_t count = std::min(most, tokens.size() - first);
    for (const auto& logits : sampler.logits(std::span(tokens).subspan(first, count))) {
      if (!prints) continue;
      print_now(Json::array(logits, [](float x) { return Json(double{x}); }).text() + "\n");
    }
  }
}

void grow(
    Generator& generator, i64 places, Tokens& tokens, const GenerateOptions& options, bool prints) {
  if (prints && !generator.sampler().cached() && options.tokens > 1) {
    log_warning(
        "a layer of this model needs whole sequences, so each token runs all before it again, "
        "which is slow");
  }
  TextLimits limits{options.tokens, {}, options.stops};
  if (!options.ignore_eos) limits.ends = generator.ends();
  std::vector<GrowingText> texts;
  for (std::vector<i32>& of : tokens) {
    texts.emplace_back(generator.tokenizer(), std::move(of), limits);
  }
  std::optional<TextPrinter> printer;
  if (prints) printer.emplace(texts, options.json);
  grow_together(generator.sampler(),
                places,
                texts,
                options.sampling,
                printer ? printer->events() : TextEvents());
}

std::vector<Prompt> read(const GenerateOptions& options) {
  check_sampling(options.sampling);
  for (const std::string& stop : options.stops) {
    if (stop.empty()) fail_config("--stop \"\": at least one character");
  }
  return read_prompts(options);
}

// Rank 0 prints; the others compute with it.
void write_texts(const StoredModel& model,
                 const RunSetup& setup,
                 const RankIdentity& identity,
                 const std::vector<Prompt>& prompts,
                 const GenerateOptions& options,
                 const RankFailed& failed) {
  const i64 places = std::min(options.batch, static_cast<i64>(prompts.size()));
  Generator generator(setup, model.folder.string(), identity, places);
  Tokens tokens = encode(*setup.tokenizer, prompts);
  const bool prints = identity.rank == 0;
  try {
    if (options.logits) {
      print_logits(generator.sampler(), places, tokens, prints);
    } else {
      grow(generator, places, tokens, options, prints);
    }
  } catch (const std::exception& error) {
    failed(error);
    generator.abort(error.what());
    throw;
  }
}

}  // namespace

int run_generate(const GenerateOptions& options) {
  std::vector<Prompt> prompts;
  StoredCommand command{.doing = "generate", .ranks = options.ranks};
  command.open = [&] {
    prompts = read(options);
    // One sample, cut over `tensor` alone.
    const UntrainedLayout layout{.ranks = options.ranks, .tensor = options.ranks};
    return StoredModel(
        options.checkpoint, options.path, options.sets, {"tessera generate", layout.keys()});
  };
  command.facts = [&]() -> std::vector<Fact> {
    std::string texts;
    for (const Prompt& prompt : prompts) texts += prompt.text + '\0';
    return {{"prompts", texts}};
  };
  command.before = [&](const StoredModel&, const RunSetup& setup) {
    const Tokens tokens = encode(*setup.tokenizer, prompts);
    if (options.ids) {
      for (const std::vector<i32>& ids : tokens) print_now(ids_json(ids).text() + "\n");
      return true;
    }
    if (options.ranks > 1 && setup.layout.tensor != options.ranks) {
      fail_config("--ranks {} cuts the model over parallel.tensor alone, which --set made {}",
                  options.ranks,
                  setup.layout.tensor);
    }
    return false;
  };
  command.work = [&](const StoredModel& model,
                     const RunSetup& setup,
                     const RankIdentity& identity,
                     const RankFailed& failed) {
    write_texts(model, setup, identity, prompts, options, failed);
  };
  return run_stored(command);
}

}  // namespace tessera
