// A table of losses that spreadsheets read: <run.out>/losses.csv, with a mark where a loss stands
// out.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <tessera/error.hpp>
#include <tessera/observer.hpp>
#include <tessera/plugin.hpp>

namespace {

using namespace tessera;

// Called on rank 0 only, between steps: what is slow here makes the run slow.
class LossTable final : public Observer {
 public:
  struct Config {
    double spike = 1.5;
    static void describe(Schema<Config>& s) {
      s.field("spike", &Config::spike, "times the mean of the losses before: marked as a spike")
          .above(1);
    }
  };
  LossTable(const Config& config, ObserverArguments& arguments)
      : config_(config),
        folder_(arguments.out),
        path_(arguments.out + "/losses.csv"),
        resume_step_(arguments.resume_step) {}

  // A resumed run goes on with its table: lines after the checkpoint's step are of steps that will
  // be done again. A new run keeps the table of an earlier one under another name.
  void do_on(const RunStart&) override {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) fail("loss_table: cannot make the folder {}: {}", folder_, SystemError(error));
    std::string kept = "step,loss,spike\n";
    if (resume_step_ == 0) {
      set_aside(path_);
    } else {
      kept += lines_until(resume_step_);
    }
    file_.open(path_, std::ios::trunc);
    file_ << kept;
    save();
  }

  void do_on(const StepEnd& step) override {
    if (step.passed_over) return;  // it has no loss
    const bool spike = steps_ > 0 && step.loss > config_.spike * mean_;
    count(step.loss);
    file_ << fmt::format("{},{},{}\n", step.step, step.loss, spike ? 1 : 0);
  }

  // Before a checkpoint is committed, everything so far must have left the program: a run that is
  // killed right afterwards goes on from that step.
  void do_on(const Saving&) override { save(); }
  void do_on(const RunEnd&) override { save(); }

 private:
  // A loss that is not finite is no part of the mean: no loss would stand out after it.
  void count(double loss) {
    if (std::isfinite(loss)) mean_ += (loss - mean_) / static_cast<double>(++steps_);
  }
  // Takes their losses into the mean. What is no line of this table, somebody's edit, is left out.
  std::string lines_until(i64 last) {
    std::ifstream in(path_);
    std::string lines;
    for (std::string line; std::getline(in, line) && !in.eof();) {
      std::istringstream text(line);
      i64 step = 0;
      char comma = 0;
      double loss = 0;
      if (!(text >> step >> comma)) continue;  // the heading too
      if (step > last) break;
      if (text >> loss) count(loss);
      lines += line + "\n";
    }
    return lines;
  }
  void save() {
    file_.flush();
    if (!file_)
      fail("loss_table: cannot write {}", path_);  // ends the run, or the save is repeated
  }

  Config config_;
  std::string folder_, path_;
  i64 resume_step_, steps_ = 0;
  double mean_ = 0;
  std::ofstream file_;
};

}  // namespace

TESSERA_PLUGIN(loss_table, "0.1.0", "Losses for spreadsheets") {
  registrar.add<Observer, LossTable>("loss_table", "losses.csv in the run's folder");
}
