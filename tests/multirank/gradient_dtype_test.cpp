// Gradients that replicas send each other in bf16, under any layout.
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "layouts_support.hpp"
#include "tessera/process_group.hpp"

namespace tessera::testing {
namespace gradient_dtype_test {

const std::string kNarrow = "parallel.gradient_dtype=\"bf16\"";
const std::string kDistributed = "optimizer.type=\"distributed\"";
const Sets kStages = {"parallel.pipeline=2", "schedule.type=\"1f1b\""};

const std::vector<TableRow>& rows() {
  static const std::vector<TableRow> kAll = {
      {"dp2", {"parallel.data=2"}},
      {"dp8", {"parallel.data=8", "batch.micro=1"}},
      {"buckets", {"parallel.data=2", "parallel.bucket_elements=1000"}},
      {"cp4", {"parallel.context=4"}},
      {"tp2_dp2_sp", {"parallel.tensor=2", "parallel.data=2", "parallel.sequence_parallel=true"}},
      {"pp2_dp2", with(kStages, {"parallel.data=2"})},
      {"distributed_dp4", {"parallel.data=4", kDistributed}},
      {"distributed_tp2_cp2_dp2_sp",
       {"parallel.tensor=2",
        "parallel.context=2",
        "parallel.data=2",
        "parallel.sequence_parallel=true",
        kDistributed}},
      {"distributed_pp2_dp2_buckets",
       with(kStages, {"parallel.data=2", "parallel.bucket_elements=1000", kDistributed})},
  };
  return kAll;
}

struct Case {
  TableRow row;
  Narrow in;
};
void PrintTo(const Case& of, std::ostream* out) { *out << of.row.name; }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string device : {"reference", "cpu"}) {
    for (const std::string compute : {"fp32", "bf16", "fp16"}) {
      for (const TableRow& row : rows()) all.push_back({row, {compute, device}});
    }
  }
  return all;
}

class NarrowGradients : public ::testing::TestWithParam<Case> {};

TEST_P(NarrowGradients, AreWithinTheBoundOfBf16Compute) {
  const Findings found = check_narrow_gradients(plugins(), GetParam().in, GetParam().row.sets);
  EXPECT_EQ(found.losses, "");
  EXPECT_EQ(found.norms, "");
  EXPECT_EQ(found.gradients, "");
  EXPECT_EQ(found.update, "");
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  const auto& [row, in] = info.param;
  return in.device + "_" + in.compute + "_" + row.name;
}

INSTANTIATE_TEST_SUITE_P(Layouts, NarrowGradients, ::testing::ValuesIn(cases()), case_name);

// Where there are no replicas nothing is sent, and nothing rounded.
TEST(GradientDtype, OneReplicaKeepsItsBits) {
  const Sets tp2 = {"parallel.tensor=2"};
  const Training wide = train(tiny_config(), tp2, {.steps = 3});
  const Training narrow = train(tiny_config(), with(tp2, {kNarrow}), {.steps = 3});
  EXPECT_EQ(narrow.losses, wide.losses);
  EXPECT_TRUE(narrow.parameters == wide.parameters);
}

struct Sent {
  Training training;
  i64 bytes = 0;  // by rank 0, over the replicas
};

Sent sent(const Sets& sets) {
  Sent out;
  std::mutex mutex;
  TrainOptions options{.steps = 5};
  options.at_end = [&](RankRun& run) {
    const std::lock_guard lock(mutex);
    if (run.mesh().rank() != 0) return;
    out.bytes = run.mesh().data_context().counters()[CollectiveKind::reduce_scatter].bytes;
  };
  out.training = train(tiny_config(), sets, options);
  return out;
}

TEST(GradientDtype, Bf16SendsHalfTheBytes) {
  const Sets dp4 = {"parallel.data=4", "check.replicas_every=0", kDistributed};
  const Sent wide = sent(dp4);
  const Sent narrow = sent(with(dp4, {kNarrow}));
  EXPECT_EQ(2 * narrow.bytes, wide.bytes);
  EXPECT_NE(narrow.training.norms, wide.training.norms);
}

}  // namespace gradient_dtype_test
}  // namespace tessera::testing
