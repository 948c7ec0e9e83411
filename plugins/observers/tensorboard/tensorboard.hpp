#pragma once
#include <optional>

#include "event_file.hpp"
#include "tessera/observer.hpp"

namespace tessera {

/// `<out>/tensorboard`: scalars of each step, with the tags that Megatron-LM gives them where it
/// has them (megatron/training/training.py, training_log and evaluate_and_print_results).
class TensorBoard final : public Observer {
 public:
  using Config = NoConfig;
  TensorBoard(const Config&, ObserverArguments& arguments) : arguments_(arguments) {}

  void do_on(const RunStart& start) override;
  void do_on(const StepEnd& step) override;
  void do_on(const Validation& validation) override;
  void do_on(const Saving&) override { file_->sync(); }
  void do_on(const RunEnd&) override { file_->sync(); }

 private:
  ObserverArguments arguments_;
  RunStart run_;
  std::optional<EventFile> file_;
};

}  // namespace tessera
