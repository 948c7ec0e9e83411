#pragma once
#include <chrono>

#include "report_page.hpp"
#include "run_folder.hpp"
#include "tessera/observer.hpp"

namespace tessera {

/// `<out>/report.html`: the run on one page, written anew while it goes on. A reader sees a whole
/// page at any time. A page that cannot be written is a warning: the run goes on.
class Report final : public Observer {
 public:
  struct Config {
    double every_s = 5;
    static void describe(Schema<Config>& s);
  };
  Report(const Config& config, ObserverArguments& arguments)
      : config_(config), arguments_(arguments) {}

  void do_on(const RunStart& start) override;
  void do_on(const StepEnd& step) override;
  void do_on(const MemoryUse& use) override;
  void do_on(const Validation& validation) override;
  void do_on(const SampleText& sample) override;
  void do_on(const Saved& saved) override { page_.newest_checkpoint = saved.path; }
  void do_on(const Failure& failure) override;
  void do_on(const RunEnd& end) override;

 private:
  using Clock = std::chrono::steady_clock;
  void take(const EarlierStep& line);
  void write_if_due();
  void write() noexcept;

  Config config_;
  ObserverArguments arguments_;
  ReportPage page_;
  Clock::time_point next_;  // not before
  bool warned_ = false;
};

}  // namespace tessera
