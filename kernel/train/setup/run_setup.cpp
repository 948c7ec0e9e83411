#include "kernel/train/setup/run_setup.hpp"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>

#include "kernel/checkpoint/folder_place.hpp"
#include "kernel/comm/threads.hpp"
#include "kernel/schedule/orders.hpp"
#include "kernel/train/data/embedded_texts.hpp"
#include "tessera/bounds.hpp"
#include "tessera/error.hpp"
#include "tessera/types.hpp"
#include "tessera/zigzag.hpp"

namespace tessera {

namespace {

i64 model_ranks(const ParallelSection& p) { return p.tensor * p.context * p.pipeline; }

// A step's plan has some actions for each.
constexpr i64 kMostMicrobatches = 1 << 14;
// Positions of a microbatch. Hosts hold the inputs of a step three times.
constexpr i64 kMostPositions = 1 << 24;

i64 microbatches_of(const RunSetup& setup) {
  const BatchSection& batch = setup.config->batch;
  const i64 ranks = RankGenerator(setup.layout).size(Axis::data);
  if (batch.micro > kMostPositions / batch.sequence_length) {
    fail_config(
        "{}: [batch] micro = {} samples of batch.sequence_length = {} are more than {} positions",
        setup.maker->origin("batch", "micro"),
        batch.micro,
        batch.sequence_length,
        kMostPositions);
  }
  const i64 samples = ranks * batch.micro;
  if (batch.global % samples != 0) {
    fail_config(
        "{}: [batch] global = {} is not a multiple of {} = {} data-parallel ranks × batch.micro = "
        "{}: every rank needs whole microbatches",
        setup.maker->origin("batch", "global"),
        batch.global,
        samples,
        ranks,
        batch.micro);
  }
  const i64 microbatches = batch.global / samples;
  if (microbatches > kMostMicrobatches) {
    fail_config(
        "{}: [batch] global = {} makes {} microbatches of batch.micro = {} on each rank: at most "
        "{} are planned; set a larger batch.micro",
        setup.maker->origin("batch", "global"),
        batch.global,
        microbatches,
        batch.micro,
        kMostMicrobatches);
  }
  return microbatches;
}

// Positions of a sample on one context-parallel rank (zigzag.hpp).
i64 local_sequence_of(const RunSetup& setup) {
  const i64 ranks = setup.config->parallel.context;
  if (ranks > 1 && setup.sequence_length % zigzag::chunks(ranks) != 0) {
    fail_config(
        "{}: [parallel] context = {} cuts every sample into {} equal chunks, two a rank, and "
        "batch.sequence_length = {} does not divide by {}",
        setup.maker->origin("parallel", "context"),
        ranks,
        zigzag::chunks(ranks),
        setup.sequence_length,
        zigzag::chunks(ranks));
  }
  return setup.sequence_length / ranks;
}

BatchShape batch_shape_of(const RunSetup& setup) {
  BatchShape batch{setup.config->batch.micro, local_sequence_of(setup)};
  const ParallelSection& p = setup.config->parallel;
  if (p.sequence_parallel && batch.rows() % p.tensor != 0) {
    fail_config(
        "{}: [parallel] sequence_parallel cuts the {} rows of a microbatch, batch.micro = {} × {} "
        "positions a context-parallel rank, and they do not divide among tensor = {} ranks",
        setup.maker->origin("parallel", "sequence_parallel"),
        batch.rows(),
        batch.micro,
        batch.sequence,
        p.tensor);
  }
  return batch;
}

// What starts a run from a configuration starts a process for each rank.
void check_communicator(const RunSetup& setup, const PluginHost& plugins) {
  const std::string& type = setup.config->comm.communicator.type;
  if (type != kThreads) return;
  std::vector<std::string> others = {"\"auto\""};
  for (const ComponentInfo* info : plugins.of_kind(Communicator::kKind)) {
    if (info->type != type) others.push_back(fmt::format("\"{}\"", info->type));
  }
  fail_config(
      "{}: [comm] type = \"{}\" joins ranks that are threads of one process, as tests start them, "
      "and a run has a process for each rank: choose {}",
      setup.maker->origin("comm", "type"),
      type,
      fmt::join(others, ", "));
}

std::shared_ptr<PipelineSchedule> make_schedule(const RunSetup& setup) {
  ScheduleArguments pipeline{setup.config->parallel.pipeline};
  auto schedule = setup.maker->make(setup.config->schedule, pipeline);
  shape_of(*schedule, static_cast<int>(pipeline.pipeline), 1, true);  // that it has chunks
  return schedule;
}

StageMap place(const RunSetup& setup) {
  const PlacementSection& placement = setup.config->placement;
  const auto ranks = static_cast<int>(setup.layout.pipeline);
  try {
    return map_stages(*setup.schedule, ranks, setup.model->layers(), placement);
  } catch (const ConfigError& error) {
    const auto at = [&](std::string_view key) { return setup.maker->origin("placement", key); };
    const std::string where = !placement.layout.empty()   ? at("layout")
                              : placement.first           ? at("first")
                              : placement.last            ? at("last")
                              : placement.count_embedding ? at("count_embedding")
                              : placement.count_head      ? at("count_head")
                                                     : setup.maker->origin("parallel", "pipeline");
    fail_config("{}: {}", where, error.what());
  }
}

// Gradients are of the main dtype, and operations add 16-bit ones to fp32 and others to their own.
void check_precision(const RunSetup& setup) {
  const PrecisionSection& p = setup.config->precision;
  const bool narrow = dtype_size(parse_dtype(p.compute)) < dtype_size(DType::fp32);
  const std::string needed = narrow ? "fp32" : p.compute;
  if (p.main != needed) {
    const std::string_view written = p.main != PrecisionSection().main ? "main" : "compute";
    fail_config(
        "{}: [precision] compute = \"{}\" adds gradients in {}, but main = \"{}\"; set both to "
        "\"fp64\", or leave main at \"fp32\" and take a compute of 16 or 32 bits",
        setup.maker->origin("precision", written),
        p.compute,
        needed,
        p.main);
  }
  if (p.loss_scale && !p.scales_loss()) {
    fail_config(
        "{}: [precision] loss_scale = {} has no effect: compute = \"{}\" needs no scale, "
        "only \"fp16\" does; leave it \"dynamic\"",
        setup.maker->origin("precision", "loss_scale"),
        *p.loss_scale,
        p.compute);
  }
  if (p.scales_loss() && !p.loss_scale && p.loss_scale_start < p.loss_scale_min) {
    fail_config("{}: [precision] loss_scale_start = {} is below loss_scale_min = {}",
                setup.maker->origin("precision", "loss_scale_start"),
                p.loss_scale_start,
                p.loss_scale_min);
  }
}

std::shared_ptr<GraphPolicy> make_graphs(const RunSetup& setup) {
  GraphArguments arguments;
  arguments.reject = [maker = setup.maker](std::string_view key, const std::string& why) {
    fail_config("{}: [graph] {}: {}", maker->origin("graph", key), key, why);
  };
  return setup.maker->make(setup.config->graph, arguments);
}

void check_graphs(const RunSetup& setup) {
  const CheckSection& check = setup.config->check;
  const std::string& type = setup.config->graph.type;
  const auto refuse = [&](std::string_view key, const std::string& why) {
    fail_config("{}: [check] {}", setup.maker->origin("check", key), why);
  };
  const bool whole = setup.graphs != nullptr && setup.graphs->whole_step();
  if (check.graphs_every > 0 && type == "none") {
    refuse("graphs_every",
           fmt::format("graphs_every = {} has no effect: [graph] type = \"none\" captures nothing",
                       check.graphs_every));
  }
  if (check.graphs_every > 0 && whole) {
    refuse("graphs_every",
           fmt::format("graphs_every = {} compares graphs of single phases, and [graph] type = "
                       "\"{}\" has one of a whole step: choose \"partial\" to compare",
                       check.graphs_every,
                       type));
  }
  if (whole && setup.config->comm.staged && setup.layout.world > 1) {
    fail_config(
        "{}: [graph] type = \"{}\" records a step with what ranks exchange, and comm.staged = true "
        "exchanges it on the rank's own thread, which no graph does: choose \"partial\" or "
        "\"none\"",
        setup.maker->origin("graph", "type"),
        type);
  }
  if (check.skips() && whole) {
    refuse(
        "on_bad_step",
        fmt::format("on_bad_step = \"skip\" reads each loss on the host before the update, which "
                    "is inside the graph of [graph] type = \"{}\": choose \"stop\" or "
                    "\"rewind\", or type = \"partial\"",
                    type));
  }
}

// Names that the system can give to a folder.
void check_names(const RunSetup& setup) {
  const RunSection& run = setup.config->run;
  constexpr std::size_t kLongestName = 200;
  if (run.name.size() > kLongestName) {
    fail_config("{}: [run] name has {} bytes: a name has at most {}",
                setup.maker->origin("run", "name"),
                run.name.size(),
                kLongestName);
  }
  const std::filesystem::path out(run.out);
  const bool too_long = std::ranges::any_of(
      out, [](const std::filesystem::path& part) { return part.native().size() > NAME_MAX; });
  if (too_long || run.out.size() > PATH_MAX / 2) {
    fail_config("{}: [run] out is too long for the name of a folder, {} bytes",
                setup.maker->origin("run", "out"),
                run.out.size());
  }
}

void check_folder(const RunSetup& setup, const char* section, const std::string& out) {
  const std::string why = why_no_folder(out);
  if (why.empty()) return;
  fail_config("{}: [{}] out = \"{}\": {}", setup.maker->origin(section, "out"), section, out, why);
}

void check_folders(const RunSetup& setup) {
  check_folder(setup, "run", setup.config->run.out);
  if (setup.config->checkpoint.save) {
    check_folder(setup, "checkpoint", setup.config->checkpoint.out);
  }
}

void check_bad_steps(const RunSetup& setup) {
  const CheckSection& check = setup.config->check;
  const CheckpointSection& checkpoint = setup.config->checkpoint;
  if (check.loss_rise > 0 && check.loss_rise <= 1) {
    fail_config(
        "{}: [check] loss_rise = {}: every loss that does not fall would be bad; give more than 1, "
        "or 0 for no bound",
        setup.maker->origin("check", "loss_rise"),
        check.loss_rise);
  }
  if (!check.rewinds() || (checkpoint.save && checkpoint.every_steps > 0)) return;
  std::string wanted = checkpoint.every_steps > 0 ? "" : "checkpoint.every_steps";
  if (!checkpoint.save) {
    wanted += fmt::format("{}checkpoint.save = true", wanted.empty() ? "" : " and ");
  }
  fail_config(
      "{}: [check] on_bad_step = \"rewind\" has no checkpoint to go back to: set {}, or choose "
      "\"stop\" or \"skip\"",
      setup.maker->origin("check", "on_bad_step"),
      wanted);
}

bool opens_no_dataset(DataUse use) {
  return use == DataUse::none || use == DataUse::embedding || use == DataUse::evaluation;
}

std::shared_ptr<const EvaluationTask> make_evaluation(const RunSetup& setup,
                                                      const Named<EvaluationTask>& named) {
  EvaluationArguments arguments{.tokenizer = setup.tokenizer,
                                .most_tokens = setup.sequence_length + 1,
                                .sequence_length = setup.sequence_length};
  return setup.maker->make(named.component, arguments);
}

// The run may have evaluations of its own.
void derive_command_evaluation(RunSetup& setup) {
  const auto& all = setup.config->evaluations;
  const auto ours = std::ranges::find(all, kCommandEvaluation, &Named<EvaluationTask>::name);
  require(ours != all.end(), "the evaluation of the command is gone");
  const auto task = make_evaluation(setup, *ours);
  setup.evaluations.emplace_back(ours->name, task);
  const auto samples = task->samples();
  setup.fields = samples != nullptr ? samples->fields()
                                    : std::vector<FieldInfo>{{"tokens", DType::i64},
                                                             {"targets", DType::i64},
                                                             {"loss_mask", DType::u8, "lm"}};
}

void derive_data(RunSetup& setup, DataUse use) {
  TokenizerArguments none;
  setup.tokenizer = setup.maker->make(setup.config->tokenizer, none);
  if (use == DataUse::embedding) {
    setup.fields = EmbeddedTexts::field_list();
    return;
  }
  if (use == DataUse::evaluation) {
    derive_command_evaluation(setup);
    return;
  }
  if (use == DataUse::none || use == DataUse::optional_tokenizer) {
    setup.fields = {{.name = "tokens", .dtype = DType::i64, .loss = ""}};
    return;
  }
  const RunConfig& config = *setup.config;
  DatasetArguments arguments{.sequence_length = setup.sequence_length,
                             .seed = config.run.seed,
                             .tokenizer = setup.tokenizer,
                             .training_samples = config.run.steps * config.batch.global,
                             .vocabulary = 0,
                             .keep_in = use == DataUse::kept ? config.run.out + "/data" : ""};
  setup.dataset = setup.maker->make(setup.config->data, arguments);
  for (const Named<EvaluationTask>& named : config.evaluations) {
    if (config.validation.every_steps == 0) {
      fail_config("{}: [evaluations.{}] would never run: validation.every_steps is 0",
                  setup.maker->origin(named.component.path, "type"),
                  named.name);
    }
    setup.evaluations.emplace_back(named.name, make_evaluation(setup, named));
  }
  setup.fields = setup.dataset->fields();
}

// Each sample of the set once at most: ordinals beyond it come again, some more often than others.
i64 validation_samples_of(const RunSetup& setup) {
  const ValidationSection& validation = setup.config->validation;
  if (validation.every_steps == 0 || setup.dataset == nullptr) return 0;
  const i64 all = setup.dataset->size(SampleSet::validation);
  if (all < 1) {
    fail_config(
        "{}: [validation] every_steps = {}, but [data] keeps no samples for validation: keep some "
        "there, or set validation.every_steps = 0",
        setup.maker->origin("validation", "every_steps"),
        validation.every_steps);
  }
  return validation.samples > 0 ? std::min(validation.samples, all) : all;
}

std::optional<Hardware> hardware_of(const RunSetup& setup) {
  const std::string& file = setup.config->run.hardware;
  if (file.empty()) return {};
  try {
    return Hardware::load(file);
  } catch (const ConfigError& error) {
    fail_config("{}: [run] hardware: {}", setup.maker->origin("run", "hardware"), error.what());
  }
}

// Does a rule in one of the optimizer's slots have to see parameters whole?
bool has_whole_rule(const ComponentInfo& optimizer,
                    const PluginHost& plugins,
                    const ConfigTree& tree) {
  return std::ranges::any_of(optimizer.fields, [&](const FieldSpec& field) {
    if (field.component_kind != UpdateRule::kKind) return false;
    const Entry* written = tree.find(fmt::format("optimizer.{}.type", field.name));
    const std::optional<Value>& type =
        written != nullptr && written->value ? written->value : field.initial;
    const auto* name = type ? std::get_if<std::string>(&type->data) : nullptr;
    const ComponentInfo* rule = name == nullptr ? nullptr : plugins.find(UpdateRule::kKind, *name);
    return rule != nullptr && rule->whole_parameters;
  });
}

// Its logits are on the ranks that hold the whole depth of the model.
void check_sample_text(const RunSetup& setup) {
  const ValidationSection& validation = setup.config->validation;
  if (validation.sample_tokens == 0) return;
  const auto refuse = [&](const std::string& why) {
    fail_config("{}: [validation] sample_tokens = {} {}",
                setup.maker->origin("validation", "sample_tokens"),
                validation.sample_tokens,
                why);
  };
  if (validation.every_steps == 0) refuse("needs validation.every_steps, which is 0");
  if (validation.sample_prompt.empty()) refuse("needs a text in validation.sample_prompt");
  if (setup.layout.pipeline > 1 || setup.layout.context > 1) {
    refuse(
        "is not for parallel.pipeline or parallel.context above 1; `tessera generate` writes text "
        "with any checkpoint");
  }
}

}  // namespace

BucketRules RunSetup::bucket_rules(const Mesh& mesh) const {
  return BucketRules::of(mesh, config->parallel.bucket_elements, sharded, whole);
}

i64 world_size(const RunConfig& config) {
  const ParallelSection& p = config.parallel;
  if (config.comm.ranks) return *config.comm.ranks;
  if (p.data) return model_ranks(p) * *p.data;
  const i64 stage = std::lcm(p.tensor * p.context, p.expert_tensor.value_or(p.tensor) * p.expert);
  return stage > kMostRanks ? stage : stage * p.pipeline;  // too many anyway: without overflow
}

Layout layout_of(const RunConfig& config, const ComponentMaker& maker, i64 world) {
  const ParallelSection& p = config.parallel;
  const auto at = [&](std::string_view key) { return maker.origin("parallel", key); };
  Layout layout;
  layout.world = world;
  layout.tensor = p.tensor;
  layout.context = p.context;
  layout.pipeline = p.pipeline;
  layout.expert = p.expert;
  layout.expert_tensor = p.expert_tensor.value_or(0);
  layout.order = p.order;
  const i64 data = [&] {
    try {
      return RankGenerator(layout).size(Axis::data);
    } catch (const LayoutError& error) {
      const bool is_key = error.member() != "world";  // that comes of the sizes
      fail_config("{}: [parallel] {}", at(is_key ? error.member() : "tensor"), error.what());
    }
  }();
  if (p.data && *p.data != data) {
    fail_config(
        "{}: [parallel] data = {}, but {} ranks with tensor {}, context {}, pipeline {} leave {} "
        "for data parallelism; set comm.ranks = {} or parallel.data = \"auto\"",
        at("data"),
        *p.data,
        world,
        p.tensor,
        p.context,
        p.pipeline,
        data,
        model_ranks(p) * *p.data);
  }
  return layout;
}

std::string experts_text(const Layout& layout) {
  std::string text;
  if (layout.expert > 1) text += fmt::format(", experts over {}", layout.expert);
  if (layout.expert_tensor > 1 && layout.expert_tensor != layout.tensor) {
    text += fmt::format(", each expert over {}", layout.expert_tensor);
  }
  return text;
}

BuildSettings build_settings_of(const RunSetup& setup, const Mesh& mesh, const Device* device) {
  const RunConfig& config = *setup.config;
  return {.mesh = &mesh,
          .batch = setup.batch,
          .sequence_parallel = config.parallel.sequence_parallel,
          .compute = parse_dtype(config.precision.compute),
          .main = parse_dtype(config.precision.main),
          .seed = config.run.seed,
          .device = device,
          .maker = setup.maker.get(),
          .stored = setup.stored ? &*setup.stored : nullptr};
}

void derive_model(RunSetup& setup, ProblemList& problems) {
  problems.run([&] {
    const i64 vocabulary = setup.tokenizer != nullptr ? setup.tokenizer->vocabulary() : 0;
    // Where the data is not known, it may be so.
    const bool own_positions =
        setup.fields.empty() ||
        std::ranges::find(setup.fields, "positions", &FieldInfo::name) != setup.fields.end();
    ModelArguments arguments{vocabulary, setup.sequence_length, own_positions};
    setup.model = setup.maker->make(setup.config->model, arguments);
    return true;
  });
  if (setup.model == nullptr || setup.schedule == nullptr) return;
  problems.run([&] {
    setup.stages = place(setup);
    return true;
  });
}

RunSetup derive_setup(const Resolved& config,
                      const PluginHost& plugins,
                      i64 world,
                      DataUse use,
                      ProblemList& problems,
                      std::string* data_problem) {
  RunSetup setup;
  setup.config = &config.run;
  setup.tree = config.tree;
  setup.slots = config.slots;
  setup.stored = config.stored;
  setup.resolve = [&plugins](const std::string& text) {
    return tessera::resolve(Config::stored(text, "the checkpoint"), plugins);
  };
  setup.maker = std::make_shared<HostMaker>(plugins, config.tree);
  const ComponentInfo* optimizer = plugins.find(Optimizer::kKind, config.run.optimizer.type);
  setup.sharded = optimizer != nullptr && optimizer->shards_replicas;
  setup.whole = optimizer != nullptr && has_whole_rule(*optimizer, plugins, *config.tree);
  setup.sequence_length = config.run.batch.sequence_length;
  using Paths = std::initializer_list<const char*>;
  const auto sound = [&](Paths paths) {
    return std::ranges::none_of(paths, [&](const char* path) { return config.doubts(path); });
  };
  // What rests on doubtful keys is not derived: its problems would be made up.
  const auto check = [&](Paths paths, auto&& body) {
    if (!sound(paths)) return false;
    return problems
        .run([&] {
          body();
          return true;
        })
        .has_value();
  };
  const auto derive = [&](Paths paths, auto& member, auto&& from) {
    return check(paths, [&] { member = from(); });
  };
  const bool laid_out = derive({"comm.ranks", "parallel"}, setup.layout, [&] {
    return layout_of(config.run, *setup.maker, world);
  });
  const bool counted =
      laid_out && derive({"batch"}, setup.microbatches, [&] { return microbatches_of(setup); });
  const bool cut =
      derive({"batch", "parallel"}, setup.batch, [&] { return batch_shape_of(setup); });
  derive({"schedule", "parallel"}, setup.schedule, [&] { return make_schedule(setup); });
  derive({"lr", "run.steps"}, setup.lr, [&] {
    LrArguments arguments{config.run.run.steps};
    return setup.maker->make(config.run.lr, arguments);
  });
  derive({"graph"}, setup.graphs, [&] { return make_graphs(setup); });
  check({"run.name", "run.out"}, [&] { check_names(setup); });
  const bool precise = check({"precision"}, [&] { check_precision(setup); });
  const bool graphs_fit = check({"check", "graph", "comm.staged"}, [&] { check_graphs(setup); });
  check({"check", "checkpoint.save", "checkpoint.every_steps"}, [&] { check_bad_steps(setup); });
  check({"validation", "parallel"}, [&] { check_sample_text(setup); });
  check({"comm.type"}, [&] { check_communicator(setup, plugins); });
  if ((use == DataUse::required || use == DataUse::kept)) {
    check({"run.out", "checkpoint.save", "checkpoint.out"}, [&] { check_folders(setup); });
    derive({"run.hardware"}, setup.hardware, [&] { return hardware_of(setup); });
  }
  if (use == DataUse::optional || use == DataUse::optional_tokenizer) {
    try {
      derive_data(setup, use);
    } catch (const Error& error) {
      *data_problem = error.what();
      return setup;
    }
  } else {
    // Whatever run.seed is, the data are the same files.
    check({"tokenizer", "data", "batch.sequence_length"}, [&] { derive_data(setup, use); });
  }
  derive({"validation", "data"}, setup.validation_samples, [&] {
    return validation_samples_of(setup);
  });
  // Without the tokenizer it is not known what the model's vocabulary would be.
  if (laid_out && setup.tokenizer != nullptr && sound({"model", "batch", "placement"})) {
    derive_model(setup, problems);
  }
  setup.can_build = cut && precise && setup.graphs != nullptr && !setup.stages.stages.empty() &&
                    sound({"device", "recompute"});
  setup.can_step = setup.can_build && counted && graphs_fit && setup.lr != nullptr &&
                   (setup.dataset != nullptr || opens_no_dataset(use)) &&
                   sound({"optimizer", "check"});
  return setup;
}

RunSetup derive_setup(const Resolved& config, const PluginHost& plugins, i64 world, DataUse use) {
  ProblemList problems;
  RunSetup setup = derive_setup(config, plugins, world, use, problems);
  problems.throw_all();
  return setup;
}

}  // namespace tessera
