// 1F1B that runs some microbatches ahead: with slow links a rank computes while it waits, for the
// memory of `ahead` more live microbatches.
#include <tessera/plugin.hpp>
#include <tessera/schedule.hpp>

namespace {

using namespace tessera;

class Patient1f1b final : public PipelineSchedule {
 public:
  struct Config {
    i64 ahead = 1;
    static void describe(Schema<Config>& s) {
      s.field("ahead", &Config::ahead, "forwards before 1F1B would run them")
          .at_least(0)
          .at_most(kMostSequences);
    }
  };
  Patient1f1b(const Config& config, ScheduleArguments&) : ahead_(static_cast<int>(config.ahead)) {}

  std::vector<Action> do_order(const PipelineShape& shape) const override {
    const int m = shape.microbatches, late = shape.ranks - shape.rank - 1 + ahead_;
    std::vector<Action> actions;
    for (int i = 0; i < m + late; ++i) {
      if (i < m) actions.push_back({Action::F, i});
      if (i >= late && shape.training) actions.push_back({Action::B, i - late});
    }
    return actions;
  }

 private:
  int ahead_;
};

}  // namespace

TESSERA_PLUGIN(patient_1f1b, "0.1.0", "1F1B for slow links") {
  registrar.add<PipelineSchedule, Patient1f1b>("patient_1f1b", "1F1B that runs ahead");
}
