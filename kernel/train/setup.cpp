#include "kernel/train/setup.hpp"

#include "kernel/model/chunk.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

i64 model_ranks(const ParallelSection& p) { return p.tensor * p.context * p.pipeline; }

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

}  // namespace

i64 world_size(const RunConfig& config) {
  return config.comm.ranks.value_or(model_ranks(config.parallel) *
                                    config.parallel.data.value_or(1));
}

Layout layout_of(const RunConfig& config, i64 world) {
  const ParallelSection& p = config.parallel;
  Layout layout;
  layout.world = world;
  layout.tensor = p.tensor;
  layout.context = p.context;
  layout.pipeline = p.pipeline;
  layout.expert = p.expert;
  layout.expert_tensor = p.expert_tensor.value_or(0);
  layout.order = p.order;
  const i64 data = RankGenerator(layout).size(Axis::data);
  if (p.data && *p.data != data) {
    fail_config(
        "parallel.data = {}, but {} ranks with tensor {}, context {}, pipeline {} leave {} "
        "for data parallelism; set comm.ranks = {} or parallel.data = \"auto\"",
        *p.data,
        world,
        p.tensor,
        p.context,
        p.pipeline,
        data,
        model_ranks(p) * *p.data);
  }
  if (p.context > 1 || p.expert > 1) {
    fail_config("parallel.{} > 1: no layer of this version cuts its work along that axis",
                p.context > 1 ? "context" : "expert");
  }
  return layout;
}

DType precision_of(const std::string& name) {
  if (name == "fp64") return DType::f64;
  require(name == "fp32", "unknown precision \"{}\"", name);
  return DType::f32;
}

RunSetup set_up(const RunConfig& config, ComponentMaker& maker, i64 world) {
  RunSetup setup;
  setup.layout = layout_of(config, world);
  setup.data_ranks = RankGenerator(setup.layout).size(Axis::data);
  const i64 samples = setup.data_ranks * config.batch.micro;
  if (config.batch.global % samples != 0) {
    fail_config(
        "batch.global = {} is not a multiple of {} = {} data-parallel ranks × batch.micro = "
        "{}: every rank needs whole microbatches",
        config.batch.global,
        samples,
        setup.data_ranks,
        config.batch.micro);
  }
  setup.microbatches = config.batch.global / samples;

  // The model says how long samples are, the tokenizer how large the vocabulary is; so the model is
  // made twice, the first time with a stand-in for the vocabulary.
  ModelArguments arguments{1};
  const i64 sequence = maker.make(config.model, arguments)->sequence_length();
  setup.dataset = make_dataset(config, maker, sequence);
  arguments.tokenizer_vocab = setup.dataset->tokenizer().vocabulary();
  setup.model = maker.make(config.model, arguments);
  ScheduleArguments pipeline{setup.layout.pipeline};
  setup.schedule = maker.make(config.schedule, pipeline);
  setup.batch = {config.batch.micro, sequence};
  return setup;
}

void check_models(const RunConfig& config, const RunSetup& setup, ComponentMaker& maker) {
  const RankGenerator ranks(setup.layout);
  for (i64 rank = 0; rank < setup.layout.tensor; ++rank) {
    const Mesh mesh(ranks, rank);
    ModelParts parts(mesh);
    BuildSettings settings{.mesh = &mesh,
                           .batch = setup.batch,
                           .compute = precision_of(config.precision.compute),
                           .main = precision_of(config.precision.main),
                           .seed = config.run.seed,
                           .device = nullptr,
                           .maker = &maker};
    Chunk(*setup.model, 0, 0, static_cast<int>(setup.model->layers().size()), settings, parts);
  }
}

}  // namespace tessera
