#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/index.hpp"
#include "kernel/checkpoint/stored_config.hpp"
#include "kernel/cli/commands.hpp"
#include "kernel/cli/joined_rank.hpp"
#include "kernel/cli/prompts.hpp"
#include "kernel/cli/text_printer.hpp"
#include "kernel/launch/environment.hpp"
#include "kernel/launch/launcher.hpp"
#include "kernel/launch/open_plugins.hpp"
#include "kernel/system/limits.hpp"
#include "kernel/train/run/generator.hpp"
#include "kernel/train/run/growing_text.hpp"
#include "kernel/train/run/text_batch.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

// One sample, cut over `tensor` alone, whatever the model was trained on.
std::vector<std::string> settings(const GenerateOptions& options) {
  std::vector<std::string> sets = {fmt::format("parallel.tensor={}", options.ranks),
                                   "parallel.pipeline=1",
                                   "parallel.context=1",
                                   "parallel.data=1",
                                   "parallel.expert=1",
                                   "parallel.expert_tensor=\"auto\"",
                                   fmt::format("comm.ranks={}", options.ranks),
                                   "batch.global=1",
                                   "batch.micro=1",
                                   "parallel.sequence_parallel=false",
                                   "graph.type=\"" + RunConfig().graph.type + "\"",
                                   "check.graphs_every=0",
                                   "placement.layout=\"\"",
                                   "placement.first=\"auto\"",
                                   "placement.last=\"auto\"",
                                   "placement.count_embedding=false",
                                   "placement.count_head=false",
                                   "schedule.type=\"" + RunConfig().schedule.type + "\""};
  sets.insert(sets.end(), options.sets.begin(), options.sets.end());
  return sets;
}

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

// What is asked for, and of what model. The same on every rank.
struct Request {
  std::vector<Prompt> prompts;
  std::filesystem::path folder;
  Opened opened;
  i64 places = 1;

  explicit Request(const GenerateOptions& options) : prompts(read_prompts(options)) {
    check_sampling(options.sampling);
    for (const std::string& stop : options.stops) {
      if (stop.empty()) fail_config("--stop \"\": at least one character");
    }
    folder = newest_checkpoint(options.checkpoint);
    const CheckpointIndex index = read_index(folder);
    const Config config = stored_config(folder, index, settings(options));
    opened.plugins = open_plugins(options.path, config);
    opened.config = resolve_stored(folder, index, config, *opened.plugins);
    places = std::min(options.batch, static_cast<i64>(prompts.size()));
  }
  RunSetup setup(i64 world) const {
    return derive_setup(opened.config, *opened.plugins, world, DataUse::none);
  }
  // Each rank reads them by itself: a run may have saved meanwhile.
  std::vector<Fact> facts() const {
    std::string texts;
    for (const Prompt& prompt : prompts) texts += prompt.text + '\0';
    return {{"checkpoint", folder.string()}, {"prompts", texts}};
  }
};

// Rank 0 prints; the others compute with it.
void write_texts(const Request& request,
                 const RunSetup& setup,
                 const RankIdentity& identity,
                 const GenerateOptions& options,
                 const RankFailed& failed) {
  Generator generator(setup, request.folder.string(), identity, request.places);
  Tokens tokens = encode(*setup.tokenizer, request.prompts);
  const bool prints = identity.rank == 0;
  try {
    if (options.logits) {
      print_logits(generator.sampler(), request.places, tokens, prints);
    } else {
      grow(generator, request.places, tokens, options, prints);
    }
  } catch (const std::exception& error) {
    failed(error);
    generator.abort(error.what());
    throw;
  }
}

int join(const GenerateOptions& options, const RankEnvironment& environment) {
  std::optional<Request> request;
  RankWork work;
  work.open = [&] { return request.emplace(options).opened; };
  work.begin = [](const Opened&) { return std::string(); };
  work.run = [&](const Opened& opened, RankIdentity& identity, const RankFailed& failed) {
    plane_of(opened, identity).same(request->facts(), "start again: it has changed meanwhile");
    const RunSetup setup = request->setup(identity.world);
    choose_links(opened, setup, identity);
    write_texts(*request, setup, identity, options, failed);
    return 0;
  };
  return join_ranks(environment, work);
}

// What can be known to be wrong before ranks start.
void check(const Request& request, const RunSetup& setup, int threads) {
  const i64 ranks = setup.layout.world;
  if (ranks > 1) {
    if (setup.layout.tensor != ranks) {
      fail_config("--ranks {} cuts the model over parallel.tensor alone, which --set made {}",
                  ranks,
                  setup.layout.tensor);
    }
    check_processors(request.opened, ranks);
    check_units(request.opened, ranks);
  }
  require_threads(threads);
  if (ranks > 1) check_generation(setup, request.folder.string(), threads);
}

}  // namespace

int run_generate(const GenerateOptions& options) {
  const auto environment = detect_environment();
  if (environment && environment->own) return join(options, *environment);

  const Request request(options);
  const RunSetup setup = request.setup(options.ranks);
  const Tokens tokens = encode(*setup.tokenizer, request.prompts);
  if (options.ids) {
    for (const std::vector<i32>& ids : tokens) print_now(ids_json(ids).text() + "\n");
    return 0;
  }
  const int threads = rank_threads(request.opened.config.run.device, options.ranks);
  check(request, setup, threads);
  if (options.ranks > 1) {
    return launch_ranks(options.ranks,
                        program_arguments(),
                        {.threads = threads,
                         .stuck_after = seconds(request.opened.config.run.comm.timeout_s),
                         .stopping = ""});
  }
  write_texts(request, setup, {.threads = threads}, options, [](const std::exception&) {});
  return 0;
}

}  // namespace tessera
