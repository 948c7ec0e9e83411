#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/identified.hpp"
#include "tessera/base/memory.hpp"
#include "tessera/schema.hpp"

namespace tessera {

/// What a run reads of its training or validation set.
struct RunData {
  i64 documents = 0;  ///< of the set; 0: nobody counts them
  std::string unit;   ///< what they are: "files", "paragraphs"
  i64 tokens = 0;     ///< of the set; 0: there is none
  double epochs = 0;  ///< how often the whole run reads it, or each validation; 0: never
};

/// What a run tells its observers, on rank 0 only.
struct RunStart {
  std::string name, out;  ///< out: folder of the run
  i64 first_step = 1, last_step = 1;
  i64 world = 1;
  i64 parameters = 0;  ///< logical elements
  i64 tokens_per_step = 0;
  double flops_per_token = 0;  ///< of a training step: three times the forward pass's products
  /// FLOP/s of a rank's device in the run's type, or of its part of one that ranks share
  /// (device.share); 0: unknown.
  double peak_flops = 0;
  std::string layout;  ///< "tp 2, dp 1 on 2 ranks (shm)"
  std::string device;  ///< of rank 0: "cpu, 2 threads: avx2; products of fp32 by …"
  RunData training, validation;
  std::string resumed_from;  ///< checkpoint folder, or empty
  std::string graphs;        ///< "24 graphs on 2 slots, …" of rank 0; empty: none are replayed
  bool json = false;         ///< console output is for programs
  std::string config;        ///< resolved, as TOML; a comment after each key says who wrote it
  std::string schedule;      ///< SVG: a step's forwards and backwards; empty: too many to draw

  /// FLOP/s of the model that a rank achieves when all ranks together train so many tokens a
  /// second. 0 where the model states none.
  double flops_per_second(double tokens_per_second) const {
    return tokens_per_second * flops_per_token / static_cast<double>(world);
  }
  /// MFU: the share of the peak that this is; 0 where the peak is unknown.
  double utilization(double tokens_per_second) const {
    return peak_flops > 0 ? flops_per_second(tokens_per_second) / peak_flops : 0;
  }
};
struct StepEnd {
  i64 step = 0;
  double loss = 0, grad_norm = 0, lr = 0;
  double seconds = 0;  ///< of this step
  double tokens_per_second = 0;
  bool skipped = false;  ///< no parameter changed: gradients not finite, or a bad loss
  /// The step was not run, because it was bad before the run went back (check.on_bad_step =
  /// "rewind"): it is skipped, too, and has no loss, norm, rate or time; these are 0.
  bool passed_over = false;
  i64 skipped_steps = 0;  ///< of the run so far, this one included
  double loss_scale = 0;  ///< of the next step; 0: the run scales no loss
  std::vector<std::pair<std::string, double>> metrics;
  /// By metric that layers make of counts: the value of each such layer, in model order.
  std::vector<std::pair<std::string, std::vector<double>>> by_layer;
};
/// Memory of the device with the highest peak after `step`; peaks are those of the run so far.
/// Follows the StepEnd of steps that are reported together: the first ones, then whenever the run
/// has twice as many steps as at the last time, and at its end.
struct MemoryUse {
  i64 step = 0;
  i64 rank = 0;  ///< whose device it is; of equal ones the first
  MemoryStats stats;
};
struct Validation {
  i64 step = 0;
  double loss = 0;
  /// Terms of a loss that has several and metrics of a validation ("lm", "lm_accuracy"), then
  /// numbers of the run's evaluations ("wiki.perplexity").
  std::vector<std::pair<std::string, double>> measured = {};
};
/// A text that the model writes after a validation (validation.sample_tokens).
struct SampleText {
  i64 step = 0;
  std::string prompt, text;  ///< any bytes
};
/// A checkpoint of this step is about to be committed. Whatever is to be known of the steps so far
/// must be on the disk when the observer returns; an exception makes the save fail, which is tried
/// again. A run may be killed right after the commit and then goes on from there.
struct Saving {
  i64 step = 0;
};
struct Saved {
  i64 step = 0;
  std::string path;
  double seconds = 0;  ///< until it was committed
  double waited = 0;   ///< of these, those in which training stood still
};
/// Steps of a run, both ends included; none where the last is before the first.
struct StepRange {
  i64 first = 1, last = 0;
  bool contains(i64 step) const { return step >= first && step <= last; }
};
/// What every rank did in the steps that observers asked for (Observer::recorded_steps): told once,
/// after the last of them, or after the run's last step.
struct Recorded {
  i64 first = 0, last = 0;  ///< steps
  std::string trace;        ///< a file in Chrome's trace event format, which Perfetto opens, too
};
struct Failure {
  std::string text;
};
struct RunEnd {
  i64 step = 0;
  double seconds = 0;
  bool interrupted = false;  ///< a signal stopped the run, and steps are left
};

struct ObserverArguments {
  std::string out;  ///< folder of the run; no other run writes there at the same time
  /// The run goes on after this step, and continues the files in `out`. 0: it starts anew, and
  /// set_aside() keeps files of an earlier run.
  i64 resume_step = 0;
  /// Those files were written with another configuration: this run may not say again what they say
  /// of later steps.
  bool changed = false;
};

/// The first free path beside this one with a number in its name: "metrics.1.jsonl", "step-3.1".
TESSERA_API std::string numbered_path(const std::string& path);

/// Renames a file of an earlier run, so that a new one can take its name: "metrics.jsonl" becomes
/// "metrics.1.jsonl", or the first number that is free, and a line on standard error says so. Does
/// nothing where there is no such file or it is empty. Throws Error naming the file.
TESSERA_API void set_aside(const std::string& path);

/// Whether `path` is a pipe (a fifo): opening it would wait without end for whoever has its other
/// end.
TESSERA_API bool is_pipe(const std::string& path);

/// Reads events and changes nothing. Plugin kind "observer". Called on rank 0's thread; an
/// exception fails the run.
class TESSERA_API Observer : public Identified {
 public:
  static constexpr std::string_view kKind = "observer";
  using Arguments = ObserverArguments;

  ~Observer() override;
  /// Steps that are to be recorded; asked once, before the first step. Where several observers ask,
  /// everything from the first to the last step that any of them wants is recorded.
  StepRange recorded_steps() const;
  void on(const RunStart&);
  void on(const StepEnd&);
  void on(const MemoryUse&);
  void on(const Validation&);
  void on(const SampleText&);
  void on(const Saving&);
  void on(const Saved&);
  void on(const Recorded&);
  void on(const Failure&);
  void on(const RunEnd&);

 private:
  virtual StepRange do_recorded_steps() const { return {}; }
  virtual void do_on(const RunStart&) {}
  virtual void do_on(const StepEnd&) {}
  virtual void do_on(const MemoryUse&) {}
  virtual void do_on(const Validation&) {}
  virtual void do_on(const SampleText&) {}
  virtual void do_on(const Saving&) {}
  virtual void do_on(const Saved&) {}
  virtual void do_on(const Recorded&) {}
  virtual void do_on(const Failure&) {}
  virtual void do_on(const RunEnd&) {}
};

}  // namespace tessera
