#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/train/run/sampling.hpp"
#include "tessera/mesh.hpp"

namespace tessera {

class PluginHost;

// What each command is given. Filled by parse.cpp, read by the command; nothing of the command
// line's library shows here. Functions return the program's exit code: 0 done, 1 failed, 2 usage or
// configuration. They may throw Error, which is printed and gives its own exit code.

struct RanksOptions {
  Layout layout;
  std::string group;  ///< "tp-dp"; empty: all axes
  std::string svg;    ///< file to draw into; empty: none
  bool json = false;
};

struct PluginsOptions {
  std::vector<std::string> path;  ///< folders searched before all others
  std::string subject;            ///< show: KIND/NAME; check: a file
};

struct NewOptions {
  std::string kind, name;
  std::string into = ".";  ///< the folder that the project's folder is made in
};

struct ConfigOptions {
  std::vector<std::string> files;  ///< diff: two, which are compared and not merged
  std::vector<std::string> sets;   ///< "key=value"
  bool strict = false;             ///< check: a warning is an error
};

struct KeysOptions {
  std::vector<std::string> path;  ///< plugin folders searched before all others
  std::string section;            ///< "optimizer", "model.block.mlp"; empty: all
  enum Format { text, markdown, megatron } format = text;
};

struct TrainOptions {
  std::vector<std::string> files;
  std::vector<std::string> sets;
  i64 restarts = 0;  ///< after failures, from the newest checkpoint
  bool json = false;
};

struct PlanOptions {
  std::vector<std::string> files;
  std::vector<std::string> sets;
  std::string hardware;  ///< a file of configs/hardware; empty: a small CPU host
  std::string svg;       ///< file to draw the timeline into; empty: none
  std::string trace;     ///< file to write the step into as a run's trace; empty: none
  i64 world = 0;         ///< 0: what the configuration asks for
  double imbalance = 1;  ///< load of the experts of each rank, against the mean
  u64 memory = 0;        ///< bytes of a device, or of a host; 0: what the hardware table says
  bool optimizer_ranges = false;  ///< print which elements each rank updates, and nothing else
  bool json = false;
};

struct CalibrateOptions {
  std::string out;                ///< file that the table is written into; empty: printed
  std::string device;             ///< as device.type would name it
  std::string name;               ///< name of the table; empty: made of ranks and threads
  std::vector<std::string> path;  ///< plugin folders searched before all others
  int ranks = 0;                  ///< ranks that compute at once; 0: the device decides
  int threads = 0;                ///< threads of each rank; 0: its share of the CPUs
};

struct ScheduleOptions {
  std::string type;
  std::vector<std::string> path;  ///< plugin folders searched before all others
  std::vector<std::string> sets;  ///< "key=value" of the schedule's own keys
  int ranks = 1;                  ///< in the pipeline
  int chunks = 0;                 ///< 0: the schedule's default
  int microbatches = 1;
  std::vector<int> layers;  ///< layers of each chunk of a rank; one for all; empty: not told
  bool forward_only = false;
  std::string svg;  ///< file to draw into; empty: none
  bool json = false;
};

struct GenerateOptions {
  std::string checkpoint;  ///< a run's folder, its checkpoints' or one of them
  std::string prompt;
  std::string prompts;  ///< file with several; "prompt" is not read then
  i64 batch = 8;        ///< of them that grow together, at most
  i64 ranks = 1;        ///< that share the model
  i64 tokens = 100;
  Sampling sampling = {.seed = 1234};
  std::vector<std::string> stops;  ///< texts that end it
  bool ignore_eos = false;         ///< go on after a token that ends a text
  bool json = false;               ///< print one object for each prompt
  bool logits = false;            ///< print what the model says of the next token, and nothing else
  bool ids = false;               ///< print each prompt's tokens, and nothing else
  std::vector<std::string> path;  ///< more plugin folders
  std::vector<std::string> sets;  ///< "key=value", over the checkpoint's configuration
};

struct EvalOptions {
  std::string task;        ///< type of the evaluation
  std::string checkpoint;  ///< a run's folder, its checkpoints' or one of them
  std::string data;        ///< file that it reads
  i64 batch = 8;           ///< texts or samples of a microbatch
  i64 ranks = 1;
  bool json = false;
  std::vector<std::string> ensemble;  ///< further checkpoints, whose scores are averaged with its
  std::vector<std::string> seeds;     ///< further checkpoints, each measured by itself
  std::string test;                   ///< file that the median of these is measured on, too
  std::string scores;                 ///< a new file, for what the head gives each sample
  std::vector<std::string> keys;      ///< of the evaluation: "--window", "1024"
  std::vector<std::string> path;      ///< more plugin folders
  std::vector<std::string> sets;      ///< "key=value", over the checkpoint's configuration
};

struct CheckpointOptions {
  enum Action { list, verify } action = list;
  std::string folder;
};

struct CheckpointDiffOptions {
  std::string a, b;      ///< folders of runs or of checkpoints
  double tolerance = 0;  ///< of elements, relative to their tensor's largest magnitude
  bool json = false;
};

struct CheckpointExportOptions {
  std::string folder, file;
  std::string dtype;  ///< empty: as they are
};

struct CheckpointReshardOptions {
  std::string folder, out;
  std::vector<std::string> path;  ///< more plugin folders
  std::vector<std::string> sets;  ///< "key=value": the layout
};

struct ConvertOptions {
  std::string from, to;               ///< folders
  std::string converter;              ///< empty: the one that fits
  bool no_tokenizer = false;          ///< the model alone
  std::optional<u64> max_shard_size;  ///< bytes; more tensors go into several files
  std::string dtype;                  ///< of a model that is written; empty: as the run says
  std::vector<std::string> path;      ///< plugin folders searched before all others
};

struct DataShowOptions {
  std::string prefix;
  std::string run;                ///< in the place of a prefix: folder of a run
  i64 step = 0;                   ///< whose samples are told
  std::vector<std::string> path;  ///< more plugin folders
  std::vector<std::string> sets;  ///< "key=value", over the run's configuration
  i64 document = -1;              ///< print its ids, and nothing else; -1: none
  bool json = false;
};

struct DataVerifyOptions {
  std::string prefix;
  i64 vocabulary = 0;  ///< ids are below it; 0: any
};

struct DataMergeOptions {
  std::string to;
  std::vector<std::string> from;
};

struct DataSplitOptions {
  std::string from, shares;  ///< "98,2"
  std::vector<std::string> to;
};

struct DataBuildOptions {
  std::string file;
  std::vector<std::string> sets;  ///< "key=value", over the file's
  std::vector<std::string> path;  ///< plugin folders searched before all others
  bool force = false;             ///< replace files that are there
};

struct TokenizerTrainOptions {
  std::string file;
  std::vector<std::string> sets;  ///< "key=value", over the file's
  std::vector<std::string> path;  ///< plugin folders searched before all others
  bool force = false;             ///< replace a file that is there
};

struct DataOverlapOptions {
  std::vector<std::string> test, train;  ///< files of documents
  std::string text_field = "text";
  i64 words = 8;
  bool json = false;
};

int run_eval(const EvalOptions& options);
/// `tessera eval embed`.
int run_embed(const EvalOptions& options);
int run_ranks(const RanksOptions& options);
int run_schedule(const ScheduleOptions& options);
int run_plugins_list(const PluginsOptions& options);
int run_plugins_show(const PluginsOptions& options);
int run_plugins_check(const PluginsOptions& options);
int run_plugins_check_child(const PluginsOptions& options);
int run_new(const NewOptions& options);
int run_config_check(const ConfigOptions& options);
int run_config_dump(const ConfigOptions& options);
int run_config_diff(const ConfigOptions& options);
int run_config_keys(const KeysOptions& options);
int run_train(const TrainOptions& options);
int run_plan(const PlanOptions& options);
int run_calibrate(const CalibrateOptions& options);
int run_generate(const GenerateOptions& options);
int run_convert(const ConvertOptions& options);
int run_data_show(const DataShowOptions& options);
int run_data_verify(const DataVerifyOptions& options);
int run_data_merge(const DataMergeOptions& options);
int run_data_split(const DataSplitOptions& options);
int run_data_build(const DataBuildOptions& options);
int run_data_overlap(const DataOverlapOptions& options);
int run_tokenizer_train(const TokenizerTrainOptions& options);
int run_checkpoint(const CheckpointOptions& options);
int run_checkpoint_diff(const CheckpointDiffOptions& options);
int run_checkpoint_export(const CheckpointExportOptions& options);
int run_checkpoint_reshard(const CheckpointReshardOptions& options);

// What several commands share.

/// Writes a picture or a report that was asked for. Throws Error naming the file.
void write_output_file(const std::string& file, std::string_view text);
/// Throws ConfigError: there is no component `subject` ("KIND/NAME"); shows which there are
/// instead.
[[noreturn]] void fail_unknown_component(const PluginHost& host, const std::string& subject);

}  // namespace tessera
