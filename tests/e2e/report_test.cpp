// The page of a run, as a training writes it.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "train_support.hpp"

namespace tessera {
namespace report_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TinyRun;

// As unit.Report/RefersToNothingOutsideItself, for what a training puts there: its configuration,
// pictures, texts and errors.
void expect_refers_to_nothing_outside(const std::string& page) {
  for (const char* outside : {"src=", "href=", "url(", "@import", "<script", "<link"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
  const std::string name = "http://www.w3.org/2000/svg";  // of a language, and no address
  int pictures = 0;
  for (std::size_t at = page.find("http"); at != page.npos; at = page.find("http", at + 1)) {
    EXPECT_EQ(page.substr(at, name.size()), name);
    ++pictures;
  }
  EXPECT_GT(pictures, 0) << "not the page of a run";
}

TEST(Report, OfATrainingIsWrittenByDefault) {
  const TinyRun run;
  const auto trained = run.train(TinyRun::steps(4,
                                                "run",
                                                {"parallel.pipeline=2",
                                                 "batch.micro=2",
                                                 "validation.every_steps=2",
                                                 "data.validation=0.1",
                                                 "run.name=a <b> & c"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const std::string page = testing::read_file(run.at("run/report.html"));
  EXPECT_THAT(page,
              AllOf(HasSubstr("<h1>a &lt;b&gt; &amp; c</h1>"),
                    HasSubstr("<p class=\"state done\">done</p>"),
                    HasSubstr("<td>pipeline 2, 2 ranks over shm</td>"),
                    HasSubstr(">activations</text>"),
                    HasSubstr(">optimizer</text>"),
                    HasSubstr("validation "),
                    HasSubstr("auto: 2 ranks in a pipeline, 4 microbatches a step: bubble "),
                    HasSubstr("<title>backward of microbatch 3, chunk 0: "),
                    HasSubstr("checkpoints/"),
                    HasSubstr("[parallel]\n")));
  // Each key with its origin, as in resolved.toml.
  EXPECT_THAT(page, HasSubstr("# --set #1\n"));
  EXPECT_THAT(page, HasSubstr("tiny.toml:5:"));
  expect_refers_to_nothing_outside(page);
}

TEST(Report, OfAnFp16TrainingShowsTheLossScale) {
  const TinyRun run;
  const auto trained = run.train(TinyRun::steps(
      3, "run", {"precision.compute=fp16", "precision.loss_scale_start=1099511627776"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const std::string page = testing::read_file(run.at("run/report.html"));
  EXPECT_THAT(page,
              AllOf(HasSubstr(">Loss scale, a power of two</text>"),
                    HasSubstr("now 2^38</text>"),
                    HasSubstr(">Skipped steps so far</text>"),
                    HasSubstr("<td>3 steps (non-finite gradients or bad loss)</td>")));
  expect_refers_to_nothing_outside(page);
}

// What the model writes does not depend on the layout, like all that it computes.
TEST(Report, ShowsTextsThatTheModelWrites) {
  const TinyRun run;
  const auto texts = [&](const std::string& out, std::vector<std::string> sets) {
    sets.insert(sets.end(),
                {"batch.micro=2",
                 "validation.every_steps=2",
                 "validation.sample_tokens=12",
                 "validation.sample_prompt=\"<the\"",
                 "data.validation=0.1"});
    const auto trained = run.train(TinyRun::steps(4, out, sets));
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
    const std::string page = testing::read_file(run.at(out + "/report.html"));
    expect_refers_to_nothing_outside(page);
    const std::size_t begin = page.find("<h2>What the model writes</h2>");
    const std::size_t end = page.find("<h2>", begin + 1);
    return begin == page.npos ? "" : page.substr(begin, end - begin);
  };
  const std::string one = texts("one", {"parallel.data=1", "comm.ranks=1"});
  EXPECT_THAT(one,
              AllOf(HasSubstr("<p>step 4</p>\n<pre class=\"sample\"><b>&lt;the</b>"),
                    HasSubstr("<p>step 2</p>")));
  EXPECT_LT(one.find("step 4"), one.find("step 2"));
  EXPECT_EQ(texts("tensor", {"parallel.tensor=2"}), one);
  EXPECT_EQ(texts("data", {"parallel.data=2", "optimizer.type=distributed"}), one);
}

TEST(Report, TextsAreRefusedWhereNoRankHasTheWholeModel) {
  const TinyRun run;
  const auto refused = [&](std::vector<std::string> sets) {
    sets.insert(sets.end(), {"validation.sample_tokens=5", "data.validation=0.1"});
    const auto trained = run.train(TinyRun::steps(2, "run", sets));
    EXPECT_EQ(trained.exit_code, 2);
    return trained.err;
  };
  EXPECT_THAT(refused({"validation.every_steps=0"}),
              HasSubstr("sample_tokens = 5 needs validation.every_steps, which is 0"));
  EXPECT_THAT(refused({"validation.every_steps=2", "validation.sample_prompt=\"\""}),
              HasSubstr("needs a text in validation.sample_prompt"));
  EXPECT_THAT(refused({"validation.every_steps=2", "parallel.pipeline=2"}),
              HasSubstr("is not for parallel.pipeline or parallel.context above 1; `tessera gen"));
}

TEST(Report, IsOffWhenItsTypeIsNone) {
  const TinyRun run;
  ASSERT_EQ(run.train(TinyRun::steps(2, "run", {"observers.report.type=none"})).exit_code, 0);
  EXPECT_FALSE(fs::exists(run.at("run/report.html")));
}

TEST(Report, SaysWhyARunFailed) {
  const TinyRun run;
  const auto trained = run.train(
      TinyRun::steps(50, "run", {"lr.type=constant", "lr.peak=1e30", "lr.warmup_steps=0"}));
  ASSERT_NE(trained.exit_code, 0);
  const std::string page = testing::read_file(run.at("run/report.html"));
  EXPECT_THAT(page,
              AllOf(HasSubstr("<p class=\"state failed\">failed</p>"),
                    HasSubstr("is not finite: the run has diverged"),
                    Not(HasSubstr("http-equiv=\"refresh\""))));
  expect_refers_to_nothing_outside(page);
}

// A browser lays the page out: a picture of its curves, which are no single colour.
TEST(Report, IsDrawnByABrowser) {
  std::string browser;
  for (const std::string name : {"chromium", "chromium-browser", "google-chrome"}) {
    const auto found = run_process({"sh", "-c", "command -v " + name});
    if (found.exit_code == 0 && browser.empty()) browser = name;
  }
  if (browser.empty()) GTEST_SKIP() << "neither chromium nor google-chrome is installed";
  const TinyRun run;
  ASSERT_EQ(run.train(TinyRun::steps(4, "run")).exit_code, 0);
  const std::string picture = run.at("report.png");
  const auto drawn = run_process({browser,
                                  "--headless",
                                  "--no-sandbox",
                                  "--disable-gpu",
                                  "--user-data-dir=" + run.at("profile"),
                                  "--window-size=1000,2400",
                                  "--screenshot=" + picture,
                                  "file://" + run.at("run/report.html")});
  ASSERT_EQ(drawn.exit_code, 0) << drawn.err;
  const std::string image = testing::read_file(picture);
  EXPECT_THAT(image.substr(0, 8), HasSubstr("PNG"));
  // An empty page of this size is below 15 kB.
  EXPECT_GT(image.size(), 40'000U);
}

}  // namespace report_test
}  // namespace tessera
