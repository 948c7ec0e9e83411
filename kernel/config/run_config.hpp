#pragma once
#include <string>
#include <vector>

#include "tessera/schema.hpp"

namespace tessera {

class Communicator;
class Dataset;
class Device;
class EvaluationTask;
class GraphPolicy;
class LrSchedule;
class Model;
class Observer;
class Optimizer;
class PipelineSchedule;
class Tokenizer;

/// The root sections of a configuration that belong to the kernel. Where a section is a component
/// slot too, its table also holds the component's keys.
struct RunSection {
  std::string name = "run";
  u64 seed = 1234;
  i64 steps = 0;
  double epochs = 0;  ///< 0: not written; steps follow from it (load_run)
  std::string out;    ///< absolute once resolved; "runs/<name>" by default
  i64 log_every_steps = 10;
  std::string hardware;  ///< absolute; empty: the peak of a rank is not known
  static void describe(Schema<RunSection>& s);
};

struct DeviceSection {
  Component<Device> device{"cpu"};
  Auto<i64> threads;
  i64 share = 1;
  static void describe(Schema<DeviceSection>& s);
};

struct PluginsSection {
  std::vector<std::string> path;  ///< absolute once resolved
  static void describe(Schema<PluginsSection>& s);
};

struct CommSection {
  Component<Communicator> communicator{"auto"};  ///< "auto": the ranks choose
  Auto<i64> ranks;
  bool oversubscribe = false;
  bool staged = false;
  double timeout_s = 60;
  double init_timeout_s = 300;
  static void describe(Schema<CommSection>& s);
};

struct ParallelSection {
  i64 tensor = 1, pipeline = 1, context = 1;
  Auto<i64> data;
  i64 expert = 1;
  Auto<i64> expert_tensor;  ///< "auto": the same as tensor
  bool sequence_parallel = false;
  std::string order = "tp-cp-ep-dp-pp";
  i64 bucket_elements = 4'000'000;      ///< of a gradient bucket
  std::string gradient_dtype = "main";  ///< dtype in which replicas send each other gradients
  static void describe(Schema<ParallelSection>& s);
};

/// Which layers each pipeline stage holds.
struct PlacementSection {
  std::string layout;  ///< "E t*3 | t*4 L"; empty: evenly, but for the numbers below
  Auto<i64> first, last;
  bool count_embedding = false, count_head = false;
  static void describe(Schema<PlacementSection>& s);
};

struct RecomputeSection {
  std::string mode = "none";  ///< "none", "full", "selective"
  std::vector<std::string> scopes{"attn"};
  static void describe(Schema<RecomputeSection>& s);
};

struct BatchSection {
  i64 global = 0, micro = 0, sequence_length = 0;
  static void describe(Schema<BatchSection>& s);
};

struct PrecisionSection {
  std::string compute = "fp32", main = "fp32";
  Auto<double> loss_scale;  ///< "dynamic", or fixed
  double loss_scale_start = 4294967296.0, loss_scale_min = 1;
  i64 loss_scale_window = 1000;
  double loss_scale_growth = 2, loss_scale_backoff = 0.5;
  i64 loss_scale_hysteresis = 2;
  bool prepare_weights = false;  ///< pack them once a step
  /// Only fp16 has too few exponents for gradients as they are.
  bool scales_loss() const { return compute == "fp16"; }
  static void describe(Schema<PrecisionSection>& s);
};

struct CheckpointSection {
  bool save = true;
  i64 every_steps = 0;
  i64 keep = 3;
  i64 failures = 3;
  bool asynchronous = false;
  std::string resume = "auto";  ///< "auto", "none", or an absolute path
  std::string out;              ///< absolute; "<run.out>/checkpoints" by default
  std::string init_from;        ///< absolute; empty: initial values
  std::vector<std::string> init_skip;
  std::vector<std::string> init_changes;
  std::string convert_dtype = "auto";
  static void describe(Schema<CheckpointSection>& s);
};

struct ValidationSection {
  i64 every_steps = 0;
  i64 samples = 0;
  i64 sample_tokens = 0;
  std::string sample_prompt = "\n";
  static void describe(Schema<ValidationSection>& s);
};

struct CheckSection {
  i64 replicas_every = 0;
  i64 graphs_every = 0;
  std::string on_bad_step = "stop";  ///< "stop", "skip", "rewind"
  bool skips() const { return on_bad_step == "skip"; }
  bool rewinds() const { return on_bad_step == "rewind"; }
  double loss_rise = 0;  ///< 0: only losses that are not finite are bad
  i64 loss_window = 20;
  i64 bad_steps = 3;
  static void describe(Schema<CheckSection>& s);
};

/// A component of a table that has several, by the name of its own.
template <class K>
struct Named {
  std::string name;
  Component<K> component;
};

/// A whole configuration, checked and typed. Components are made from their table (`path`).
struct RunConfig {
  RunSection run;
  DeviceSection device;
  PluginsSection plugins;
  CommSection comm;
  ParallelSection parallel;
  PlacementSection placement;
  RecomputeSection recompute;
  BatchSection batch;
  Component<Tokenizer> tokenizer{"byte"};
  Component<Model> model{"gpt"};
  PrecisionSection precision;
  Component<PipelineSchedule> schedule{"auto"};
  Component<GraphPolicy> graph{"none"};
  Component<Optimizer> optimizer{"replicated"};
  Component<LrSchedule> lr{"constant"};
  Component<Dataset> data{"text"};
  CheckpointSection checkpoint;
  ValidationSection validation;
  CheckSection check;
  // In the order of writing, then defaults; without "none".
  std::vector<Named<EvaluationTask>> evaluations;
  std::vector<Named<Observer>> observers;
};

/// A root table: its own keys, and the component it selects, if it does.
struct RootSection {
  std::string name;
  std::string doc;
  std::string kind;          ///< empty: no component
  std::string default_type;  ///< "auto" is allowed as a type where it is the default
  std::vector<FieldSpec> fields;
  /// Every sub-table selects a component of `kind`, or "none"; its type defaults to its name.
  bool each = false;
  std::vector<std::string> always{};  ///< sub-tables that are there without being written
  std::string megatron{};             ///< Megatron-LM's flag for the choice of the component
  bool structural = false;            ///< the choice changes what parameters compute
  /// "auto" is allowed: the first component whose units of hardware are here, else the default.
  bool by_units = false;
};

/// All root sections, in the order in which they are documented and dumped.
const std::vector<RootSection>& root_sections();

}  // namespace tessera
