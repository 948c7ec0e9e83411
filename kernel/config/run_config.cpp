#include "kernel/config/run_config.hpp"

#include "tessera/data.hpp"
#include "tessera/device/communicator.hpp"
#include "tessera/device/device.hpp"
#include "tessera/evaluation.hpp"
#include "tessera/graph.hpp"
#include "tessera/model.hpp"
#include "tessera/observer.hpp"
#include "tessera/optimizer.hpp"
#include "tessera/process_group.hpp"
#include "tessera/schedule.hpp"

namespace tessera {

namespace {

constexpr double kLargestScale = 1e18;
constexpr double kLeastSeconds = 0.001;  // waits are counted in milliseconds

}  // namespace

void RunSection::describe(Schema<RunSection>& s) {
  s.field("name", &RunSection::name, "name of the run, for logs and folders");
  s.field("seed", &RunSection::seed, "seeds initial values, dropout and the order of the data")
      .at_least(0)
      .at_most(kMostSeed)
      .megatron("--seed");
  s.field("steps", &RunSection::steps, "optimizer steps of the whole run")
      .at_least(1)
      .at_most(kMostSteps)
      .required()
      .megatron("--train-iters")
      .also("max_iters max_steps")
      .also("--train-samples", "is {} × batch.global here");
  s.field("epochs",
          &RunSection::epochs,
          "in the place of steps: how often each training sample is read; the dataset says how "
          "many steps these are. 0: steps are given")
      .at_least(0)
      .at_most(1'000'000)
      .also("num_train_epochs");
  s.field("out",
          &RunSection::out,
          "folder of the run; \"runs/<name>\" in the working folder when not set")
      .is_path();
  s.field("log_every_steps", &RunSection::log_every_steps, "steps between two reads of the loss")
      .at_least(1)
      .at_most(100'000)  // their history is kept on the device
      .megatron("--log-interval");
  s.field("hardware",
          &RunSection::hardware,
          "table of what a rank's device reaches, such as \"hardware/h100-dgx.toml\" in a file of "
          "configs/: the run tells its MFU, and `tessera plan` predicts with it; unset: no MFU is "
          "told")
      .is_path();
}

void DeviceSection::describe(Schema<DeviceSection>& s) {
  s.field("threads", &DeviceSection::threads, "CPU threads of a rank; \"auto\": its share of cores")
      .at_least(1)
      .at_most(kMostThreads);
  s.field("share",
          &DeviceSection::share,
          "most ranks that compute on one unit of hardware, as one GPU, at a time")
      .at_least(1)
      .at_most(kMostRanks);
}

void PluginsSection::describe(Schema<PluginsSection>& s) {
  s.field("path", &PluginsSection::path, "folders searched for plugins before the installed ones")
      .is_path();
}

void CommSection::describe(Schema<CommSection>& s) {
  s.field("ranks", &CommSection::ranks, "world size; \"auto\": the product of the layout")
      .at_least(1)
      .at_most(kMostRanks);
  s.field("oversubscribe",
          &CommSection::oversubscribe,
          "start more ranks on this host than 8 for each of its processors");
  s.field("staged",
          &CommSection::staged,
          "for a device whose memory the communicator does not carry: copy what ranks exchange "
          "through page-locked memory of the host, so that several ranks may share a GPU");
  s.field("timeout_s", &CommSection::timeout_s, "seconds until a collective has failed")
      .at_least(kLeastSeconds)
      .at_most(kMostSeconds)
      .megatron("--distributed-timeout-minutes");
  s.field("init_timeout_s",
          &CommSection::init_timeout_s,
          "seconds that ranks wait for each other when they start and when they save together; a "
          "rank whose process stands still during a save is given up after timeout_s")
      .at_least(kLeastSeconds)
      .at_most(kMostSeconds);
}

void ParallelSection::describe(Schema<ParallelSection>& s) {
  s.field("tensor", &ParallelSection::tensor, "ranks that share each matrix")
      .at_least(1)
      .at_most(kMostOnAxis)
      .megatron("--tensor-model-parallel-size")
      .also("tp");
  s.field("pipeline", &ParallelSection::pipeline, "ranks that share the layers in a row")
      .at_least(1)
      .at_most(kMostOnAxis)
      .megatron("--pipeline-model-parallel-size")
      .also("pp");
  s.field("context", &ParallelSection::context, "ranks that share each sequence")
      .at_least(1)
      .at_most(kMostOnAxis)
      .megatron("--context-parallel-size")
      .also("cp");
  s.field(
       "data",
       &ParallelSection::data,
       "replicas; \"auto\" fills a given world size, else the fewest that the experts' ranks fit")
      .at_least(1)
      .at_most(kMostOnAxis)
      .also("dp");
  s.field("expert", &ParallelSection::expert, "ranks that share the experts of a layer")
      .at_least(1)
      .at_most(kMostOnAxis)
      .megatron("--expert-model-parallel-size")
      .also("ep");
  s.field("expert_tensor",
          &ParallelSection::expert_tensor,
          "ranks that share each expert's matrices; \"auto\": as tensor")
      .at_least(1)
      .at_most(kMostOnAxis)
      .megatron("--expert-tensor-parallel-size")
      .also("etp");
  s.field("sequence_parallel",
          &ParallelSection::sequence_parallel,
          "between tensor-parallel regions each rank of the tensor group keeps its share of the "
          "rows")
      .megatron("--sequence-parallel");
  s.field("order", &ParallelSection::order, "order of the ranks, the fastest axis first")
      .also("--use-tp-pp-dp-mapping", "is {} = \"tp-cp-ep-pp-dp\" here");
  s.field("bucket_elements",
          &ParallelSection::bucket_elements,
          "gradients reduced together while the backward pass goes on")
      .at_least(1)
      .at_most(kMostElements)
      .megatron("--ddp-bucket-size");
  s.field(
       "gradient_dtype",
       &ParallelSection::gradient_dtype,
       "dtype in which data-parallel replicas send each other gradients; main: as they are kept. "
       "What is narrower is rounded, added in fp32 and rounded once more; bf16 halves the bytes")
      .one_of({"main", "fp32", "bf16"})
      .megatron("--grad-reduce-in-bf16")
      .also("--accumulate-allreduce-grads-in-fp32", "is what {} does here, unless it is \"bf16\"");
}

void PlacementSection::describe(Schema<PlacementSection>& s) {
  s.field("layout",
          &PlacementSection::layout,
          "layers of each stage: E embedding, t block, L head, | next stage, (x)*n and x*n repeat; "
          "\"\": the same number of blocks for each")
      .megatron("--pipeline-model-parallel-layout");
  s.field("first",
          &PlacementSection::first,
          "blocks of the first pipeline rank, all its chunks; \"auto\": its even share")
      .at_least(0)
      .at_most(kMostLayers)
      .megatron("--decoder-first-pipeline-num-layers");
  s.field("last", &PlacementSection::last, "the same of the last pipeline rank")
      .at_least(0)
      .at_most(kMostLayers)
      .megatron("--decoder-last-pipeline-num-layers");
  s.field("count_embedding",
          &PlacementSection::count_embedding,
          "the embedding counts as a block in the even share")
      .megatron("--account-for-embedding-in-pipeline-split");
  s.field("count_head",
          &PlacementSection::count_head,
          "the head with the loss counts as a block in the even share")
      .megatron("--account-for-loss-in-pipeline-split");
}

void RecomputeSection::describe(Schema<RecomputeSection>& s) {
  s.field("mode",
          &RecomputeSection::mode,
          "what the backward pass computes again instead of keeping it: \"full\": every block from "
          "its input; \"selective\": the phases in scopes")
      .one_of({"none", "full", "selective"})
      .megatron("--recompute-granularity")
      .also("--recompute-activations", "is {} = \"selective\" here");
  s.field("scopes",
          &RecomputeSection::scopes,
          "phases that \"selective\" computes again; with another mode only the default or [] is "
          "accepted")
      .megatron("--recompute-modules");
}

void BatchSection::describe(Schema<BatchSection>& s) {
  s.field("global", &BatchSection::global, "sequences of one step, over all ranks")
      .at_least(1)
      .at_most(kMostSequences)
      .required()
      .megatron("--global-batch-size")
      .also("batch_size", "is {} here, of a step, or batch.micro, of one pass of a replica");
  s.field("micro", &BatchSection::micro, "sequences of one microbatch")
      .at_least(1)
      .at_most(kMostSequences)
      .required()
      .megatron("--micro-batch-size")
      .also("per_device_train_batch_size");
  s.field("sequence_length", &BatchSection::sequence_length, "positions of a sequence")
      .at_least(1)
      .at_most(kMostPositions)
      .required()
      .megatron("--seq-length")
      .also("block_size n_positions seq_len");
}

void PrecisionSection::describe(Schema<PrecisionSection>& s) {
  using P = PrecisionSection;
  s.field("compute",
          &P::compute,
          "of activations and of the parameters that layers read; sums inside an operation are "
          "wider, and each result is rounded once")
      .one_of({"fp32", "bf16", "fp16", "fp64"})
      .megatron("--bf16 --fp16");
  s.field("main",
          &P::main,
          "of main parameters, gradients and optimizer state: fp32, or fp64 where compute is fp64")
      .one_of({"fp32", "fp64"})
      .also("--main-grads-dtype --main-params-dtype");
  s.field("prepare_weights",
          &P::prepare_weights,
          "pack the weights of linear layers once a step, as the device's products read them, and "
          "not in each product: for several microbatches a step. Each weight takes memory twice "
          "more, for forward products and for input gradients");
  s.field("loss_scale",
          &P::loss_scale,
          "of fp16 compute: the loss is multiplied by it, so that small gradients are not lost; a "
          "number is kept; \"dynamic\" moves by the keys below. A step whose gradients overflow "
          "changes no parameter",
          "dynamic")
      .at_least(1)
      .at_most(kLargestScale)
      .megatron("--loss-scale");
  s.field("loss_scale_start", &P::loss_scale_start, "of the first step")
      .at_least(1)
      .at_most(kLargestScale)
      .megatron("--initial-loss-scale");
  s.field("loss_scale_min", &P::loss_scale_min, "it shrinks no further")
      .at_least(1)
      .at_most(kLargestScale)
      .megatron("--min-loss-scale");
  s.field("loss_scale_window",
          &P::loss_scale_window,
          "steps in a row without overflow before the scale grows")
      .at_least(1)
      .at_most(kMostSteps)
      .megatron("--loss-scale-window");
  s.field("loss_scale_growth", &P::loss_scale_growth, "the scale grows by this factor")
      .at_least(1)
      .at_most(kLargestScale);
  s.field("loss_scale_backoff", &P::loss_scale_backoff, "an overflow shrinks it by this factor")
      .above(0)
      .below(1);
  s.field("loss_scale_hysteresis",
          &P::loss_scale_hysteresis,
          "the first overflow that shrinks it, counted since it grew; each later one does too")
      .at_least(1)
      .at_most(kMostSteps)
      .megatron("--hysteresis");
}

void CheckpointSection::describe(Schema<CheckpointSection>& s) {
  s.field("save",
          &CheckpointSection::save,
          "save at the end, when the run is stopped, and every `every_steps`; false: never");
  s.field("every_steps",
          &CheckpointSection::every_steps,
          "steps between checkpoints; 0: only at the end and when the run is stopped")
      .at_least(0)
      .at_most(kMostSteps)
      .megatron("--save-interval");
  s.field("keep", &CheckpointSection::keep, "newest checkpoints that stay; 0: all")
      .at_least(0)
      .at_most(kMostSteps);
  s.field("failures",
          &CheckpointSection::failures,
          "how often in a row a save that failed is tried again, each time a step later "
          "(`asynchronous`: a second later), before it ends the run")
      .at_least(0)
      .at_most(kMostSteps);
  s.field(
       "asynchronous",
       &CheckpointSection::asynchronous,
       "copy what is saved and go on, while a thread writes the copy; takes the memory of what a "
       "rank writes once more on its host")
      .megatron("--async-save");
  s.field("resume",
          &CheckpointSection::resume,
          "\"auto\": the newest in `out`, if any; \"none\"; or a checkpoint's folder")
      .is_path({"auto", "none"})
      .megatron("--load")
      .also("--ckpt-step", "is {} = \".../step-N\" here");
  s.field("out", &CheckpointSection::out, "their folder; \"<run.out>/checkpoints\" when not set")
      .is_path()
      .megatron("--save");
  s.field("init_from",
          &CheckpointSection::init_from,
          "a new run starts with the parameters of this checkpoint instead of initial values "
          "(fine-tuning); step, optimizer state and data position are new")
      .is_path()
      .megatron("--finetune")
      .also("--pretrained-checkpoint")
      .also("--no-load-optim", "is {} here, which begins at step 0");
  s.field("init_skip",
          &CheckpointSection::init_skip,
          "names of parameters that are not taken from `init_from`, with * as in file names: "
          "[\"head.*\"]");
  s.field(
      "init_changes",
      &CheckpointSection::init_changes,
      "structural keys in which the run may differ from the checkpoint of `init_from`, with * as "
      "in file names, and \"tokenizer\": [\"model.heads\", \"tokenizer\"]");
  s.field("convert_dtype",
          &CheckpointSection::convert_dtype,
          "dtype of the parameters that `tessera convert` writes of these checkpoints, unless its "
          "--dtype says another; auto: as the checkpoint has them. The model.toml of a converted "
          "model says what its files had")
      .one_of({"auto", "fp32", "bf16", "fp16"});
}

void ValidationSection::describe(Schema<ValidationSection>& s) {
  s.field("every_steps", &ValidationSection::every_steps, "steps between validations; 0: none")
      .at_least(0)
      .at_most(kMostSteps)
      .megatron("--eval-interval");
  s.field("samples", &ValidationSection::samples, "samples of each, at most the set; 0: the set")
      .at_least(0)
      .at_most(kMostSteps)
      .also("--eval-iters", "is {} here: windows, not batches")
      .also("--full-validation", "is {} = 0 here");
  s.field(
       "sample_tokens",
       &ValidationSection::sample_tokens,
       "tokens of a text that the model writes after each, for report.html; each takes a forward "
       "pass of a microbatch. Not with pipeline or context parallelism; 0: none")
      .at_least(0)
      .at_most(10000);
  s.field("sample_prompt", &ValidationSection::sample_prompt, "what that text begins with");
}

void CheckSection::describe(Schema<CheckSection>& s) {
  s.field("replicas_every",
          &CheckSection::replicas_every,
          "steps between comparisons of replicated parameters over their groups; 0: none")
      .at_least(0)
      .at_most(kMostSteps)
      .megatron("--check-weight-hash-across-dp-replicas-interval");
  s.field("graphs_every",
          &CheckSection::graphs_every,
          "steps between comparisons of replayed graphs with the same phases run as they are, for "
          "one microbatch; the first phase that differs ends the run; 0: none")
      .at_least(0)
      .at_most(kMostSteps);
  s.field("on_bad_step",
          &CheckSection::on_bad_step,
          "after a step whose loss is not finite or more than `loss_rise` times the running mean, "
          "or whose gradients are not finite (under a dynamic loss scale only where it cannot fall "
          "any more): \"stop\" ends the run, \"skip\" leaves out the update (the host waits for "
          "each step's loss; a dynamic loss scale counts it as an overflow), \"rewind\" goes back "
          "to the newest checkpoint and passes over the batch")
      .one_of({"stop", "skip", "rewind"});
  s.field("loss_rise",
          &CheckSection::loss_rise,
          "a loss of more than this times the running mean is bad, 1.5 for example; 0: none is")
      .at_least(0)
      .also("--check-for-spiky-loss");
  s.field("loss_window",
          &CheckSection::loss_window,
          "steps that the running mean forgets in; before so many good ones no rise is bad")
      .at_least(1)
      .at_most(kMostSteps);
  s.field("bad_steps",
          &CheckSection::bad_steps,
          "most bad steps in a row, one more ends the run; with \"skip\" a good step ends the row, "
          "with \"rewind\" a good step that has the parameters of a newer checkpoint")
      .at_least(0)
      .at_most(kMostSteps);
}

namespace {

template <class K>
RootSection component(std::string name,
                      std::string doc,
                      const Component<K>& initial,
                      std::string flag = "") {
  RootSection out{std::move(name), std::move(doc), std::string(K::kKind), initial.type, {}};
  out.megatron = std::move(flag);
  out.structural = detail::StructuralKind<K>;
  return out;
}

template <class S>
RootSection section(std::string name, std::string doc) {
  return {std::move(name), std::move(doc), "", "", fields_of<S>()};
}

template <class S, class K>
RootSection both(std::string name,
                 std::string doc,
                 const Component<K>& initial,
                 std::string flag = "") {
  RootSection out = component(std::move(name), std::move(doc), initial, std::move(flag));
  out.fields = fields_of<S>();
  return out;
}

RootSection device_section(const Component<Device>& initial) {
  RootSection out = both<DeviceSection>(
      "device",
      "what a rank computes on; type = \"auto\": a device whose hardware is visible, else the CPU",
      initial);
  out.by_units = true;
  return out;
}

std::vector<RootSection> make_sections() {
  const RunConfig c;
  RootSection observers =
      component("observers",
                "what reads events: one table each; console, metrics and report are on unless "
                "their type is \"none\"",
                Component<Observer>());
  observers.each = true;
  observers.always = {"console", "metrics", "report"};
  RootSection evaluations =
      component("evaluations",
                "what the model is measured with after each validation: one table each",
                Component<EvaluationTask>());
  evaluations.each = true;
  return {
      section<RunSection>("run", "the run as a whole"),
      device_section(c.device.device),
      section<PluginsSection>("plugins", "where plugins are"),
      both<CommSection>(
          "comm", "how ranks exchange data", c.comm.communicator, "--distributed-backend"),
      section<ParallelSection>("parallel", "the layout of the ranks"),
      section<PlacementSection>("placement", "which layers each pipeline stage holds"),
      section<RecomputeSection>("recompute", "activations that are computed again"),
      section<BatchSection>("batch", "samples of a step"),
      component("tokenizer", "text to tokens and back", c.tokenizer, "--tokenizer-type"),
      component("model", "what is trained", c.model),
      section<PrecisionSection>("precision", "element types"),
      component("schedule", "the pipeline's order of work", c.schedule),
      component("graph", "what is captured as graphs", c.graph),
      component("optimizer", "who updates which shards of the parameters", c.optimizer),
      component("lr", "learning rate by step", c.lr, "--lr-decay-style"),
      component("data", "what is trained on", c.data),
      section<CheckpointSection>("checkpoint", "saving and resuming"),
      section<ValidationSection>("validation", "loss on data that is not trained on"),
      section<CheckSection>("check", "checks while training"),
      evaluations,
      observers,
  };
}

}  // namespace

const std::vector<RootSection>& root_sections() {
  static const std::vector<RootSection> kSections = make_sections();
  return kSections;
}

}  // namespace tessera
