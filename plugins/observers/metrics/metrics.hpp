#pragma once
#include <memory>
#include <optional>
#include <string>

#include "metrics_file.hpp"
#include "tessera/io/json.hpp"
#include "tessera/observer.hpp"

namespace tessera {

/// `<out>/metrics.jsonl`: one JSON object a step. A step's line waits for the next event, because
/// a validation of that step belongs into it.
class Metrics final : public Observer {
 public:
  using Config = NoConfig;
  Metrics(const Config&, ObserverArguments& arguments) : arguments_(arguments) {}
  ~Metrics() override;

  void do_on(const RunStart& start) override;
  void do_on(const StepEnd& step) override;
  void do_on(const Validation& validation) override;
  void do_on(const Saving&) override { save(); }
  void do_on(const Failure&) override { write(); }
  void do_on(const RunEnd&) override { save(); }

 private:
  void write();
  void save();  // writes, and waits for the disk

  ObserverArguments arguments_;
  RunStart run_;
  std::unique_ptr<MetricsFile> file_;
  i64 step_ = -1;  ///< of line_
  Json line_;      ///< the newest step's object
  bool waiting_ = false;
};

}  // namespace tessera
