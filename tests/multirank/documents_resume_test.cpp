// A run on documents, on prompts and answers, or of BERT, that was stopped in one layout goes on in
// another with the losses of a run that was not stopped.
#include <filesystem>

#include "bert_samples_support.hpp"
#include "common/test_folder.hpp"
#include "documents_support.hpp"
#include "trainer_support.hpp"

namespace tessera::testing {
namespace documents_resume_test {

using namespace decoder_layouts;
using namespace documents_support;

constexpr i64 kSteps = 8, kStop = 3;

// Row::sets: before the stop; Row::model: what is trained, on which data.
std::vector<Row> rows() {
  const Sets choices = {"data.goal=\"choice\"", "model.head.type=\"choice_head\""};
  return {{"apart", with(kTensor, {kRows}), decoder(kApart)},
          {"packed", kContext, decoder(kPacked)},
          {"blend", kShards, decoder(blend())},
          {"instructions", kInterleaved, decoder(answers("none"))},
          {"packed_instructions", kContext, decoder(answers("examples"))},
          {"bert_pre", kContext, bert_samples::bert("pre", bert_samples::kPadded)},
          {"bert_post", with(kTensor, {kRows}), bert_samples::bert("post")},
          {"bert_choices", kShards, bert_samples::bert("post", choices)}};
}

class DocumentsGoOn : public ::testing::TestWithParam<Row> {
 protected:
  Sets sets(const Sets& layout, const std::string& out) const {
    const Sets run = {fmt::format("run.steps={}", kSteps),
                      "lr.warmup_steps=2",
                      "checkpoint.every_steps=100",
                      "run.out=" + out};
    return with(with(run, GetParam().model), layout);
  }
  const std::string config_ = tiny_config() + "[observers.console]\ntype = \"none\"\n";
};

TEST_P(DocumentsGoOn, UnderAnotherLayout) {
  const TestFolder folder;
  run_trainer({config_, sets({}, folder.at("whole"))});
  run_trainer({config_, sets(GetParam().sets, folder.at("from")), kStop});
  ASSERT_EQ(metric_of(folder.at("from"), "loss").size(), static_cast<std::size_t>(kStop));
  const std::vector<double> whole = metric_of(folder.at("whole"), "loss");
  ASSERT_EQ(whole.size(), static_cast<std::size_t>(kSteps));
  const std::vector<Sets> others = {with(with(kTensor, kContext), {kRows}), kInterleaved, kShards};
  for (std::size_t i = 0; i < others.size(); ++i) {
    const std::string copy = folder.at(fmt::format("to_{}", i));
    std::filesystem::copy(folder.at("from"), copy, std::filesystem::copy_options::recursive);
    run_trainer({config_, sets(others[i], copy)});
    EXPECT_EQ(difference(metric_of(copy, "loss"), whole, kLossTolerance, "loss"), "") << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Data, DocumentsGoOn, ::testing::ValuesIn(rows()), name_of);

}  // namespace documents_resume_test
}  // namespace tessera::testing
