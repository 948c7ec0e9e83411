#include "kernel/train/setup.hpp"

#include <utility>

#include "kernel/schedule/orders.hpp"
#include "tessera/error.hpp"
#include "tessera/zigzag.hpp"

namespace tessera {

namespace {

i64 model_ranks(const ParallelSection& p) { return p.tensor * p.context * p.pipeline; }

}  // namespace

i64 world_size(const RunConfig& config) {
  return config.comm.ranks.value_or(model_ranks(config.parallel) *
                                    config.parallel.data.value_or(1));
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
  if (p.expert > 1) {
    fail_config("{}: [parallel] expert > 1: no layer of this version cuts its work along that axis",
                at("expert"));
  }
  const i64 data = [&] {
    try {
      return RankGenerator(layout).size(Axis::data);
    } catch (const ConfigError& error) {
      fail_config("{}: [parallel] {}", at("tensor"), error.what());
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

DType precision_of(const std::string& name) {
  if (name == "fp64") return DType::f64;
  require(name == "fp32", "unknown precision \"{}\"", name);
  return DType::f32;
}

i64 microbatches_of(const RunConfig& config, const ComponentMaker& maker, const Layout& layout) {
  const i64 ranks = RankGenerator(layout).size(Axis::data);
  const i64 samples = ranks * config.batch.micro;
  if (config.batch.global % samples != 0) {
    fail_config(
        "{}: [batch] global = {} is not a multiple of {} = {} data-parallel ranks × batch.micro = "
        "{}: every rank needs whole microbatches",
        maker.origin("batch", "global"),
        config.batch.global,
        samples,
        ranks,
        config.batch.micro);
  }
  return config.batch.global / samples;
}

i64 sequence_length_of(const RunConfig& config, ComponentMaker& maker) {
  ModelArguments any_vocabulary{1};
  return maker.make(config.model, any_vocabulary)->sequence_length();
}

i64 local_sequence_of(const RunConfig& config, const ComponentMaker& maker, i64 sequence_length) {
  const i64 ranks = config.parallel.context;
  if (ranks > 1 && sequence_length % zigzag::chunks(ranks) != 0) {
    fail_config(
        "{}: [parallel] context = {} cuts every sample into {} equal chunks, two a rank, and "
        "model.sequence_length = {} does not divide by {}",
        maker.origin("parallel", "context"),
        ranks,
        zigzag::chunks(ranks),
        sequence_length,
        zigzag::chunks(ranks));
  }
  return sequence_length / ranks;
}

BatchShape batch_shape_of(const RunConfig& config,
                          const ComponentMaker& maker,
                          i64 sequence_length) {
  BatchShape batch{config.batch.micro, local_sequence_of(config, maker, sequence_length)};
  const ParallelSection& p = config.parallel;
  if (p.sequence_parallel && batch.rows() % p.tensor != 0) {
    fail_config(
        "{}: [parallel] sequence_parallel cuts the {} rows of a microbatch, batch.micro = {} × {} "
        "positions a context-parallel rank, and they do not divide among tensor = {} ranks",
        maker.origin("parallel", "sequence_parallel"),
        batch.rows(),
        batch.micro,
        batch.sequence,
        p.tensor);
  }
  return batch;
}

std::shared_ptr<Dataset> make_dataset(const RunConfig& config,
                                      ComponentMaker& maker,
                                      i64 sequence_length) {
  DatasetArguments arguments;
  arguments.sequence_length = sequence_length;
  arguments.seed = config.run.seed;
  arguments.make_tokenizer = [&maker](const Component<Tokenizer>& tokenizer) {
    TokenizerArguments none;
    return maker.make(tokenizer, none);
  };
  return maker.make(config.data, arguments);
}

std::shared_ptr<PipelineSchedule> make_schedule(const RunConfig& config, ComponentMaker& maker) {
  ScheduleArguments pipeline{config.parallel.pipeline};
  auto schedule = maker.make(config.schedule, pipeline);
  shape_of(*schedule, static_cast<int>(pipeline.pipeline), 1, true);  // that it has chunks
  return schedule;
}

BuildSettings build_settings_of(const RunConfig& config,
                                ComponentMaker& maker,
                                const BatchShape& batch,
                                const Mesh& mesh,
                                const Device* device) {
  return {.mesh = &mesh,
          .batch = batch,
          .sequence_parallel = config.parallel.sequence_parallel,
          .compute = precision_of(config.precision.compute),
          .main = precision_of(config.precision.main),
          .seed = config.run.seed,
          .device = device,
          .maker = &maker};
}

RunSetup set_up(const RunConfig& config,
                ComponentMaker& maker,
                i64 world,
                const Tokenizer* tokenizer,
                std::shared_ptr<Dataset> dataset) {
  RunSetup setup;
  setup.layout = layout_of(config, maker, world);
  setup.microbatches = microbatches_of(config, maker, setup.layout);
  const i64 sequence_length = sequence_length_of(config, maker);
  setup.batch = batch_shape_of(config, maker, sequence_length);
  if (tokenizer == nullptr) {
    setup.dataset =
        dataset != nullptr ? std::move(dataset) : make_dataset(config, maker, sequence_length);
    tokenizer = &setup.dataset->tokenizer();
  }
  ModelArguments arguments{tokenizer->vocabulary()};
  setup.model = maker.make(config.model, arguments);
  setup.schedule = make_schedule(config, maker);
  return setup;
}

}  // namespace tessera
