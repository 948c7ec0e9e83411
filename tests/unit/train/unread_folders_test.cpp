// What `tessera convert` says of folders that it does not read.
#include "kernel/train/run/unread_folders.hpp"

#include <gmock/gmock.h>

#include "common/test_folder.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace unread_folders_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::TestFolder;

class UnreadFolders : public ::testing::Test {
 protected:
  std::string told() const {
    ::testing::internal::CaptureStderr();
    try {
      tell_unread_folders(folder_.path());
    } catch (const ConfigError& error) {
      return ::testing::internal::GetCapturedStderr() + error.what();
    }
    return ::testing::internal::GetCapturedStderr();
  }
  // A pooling with this config.json.
  std::string of_pooling(const std::string& config) const {
    folder_.write("1_Pooling/config.json", config);
    return told();
  }
  void modules(const std::string& last) const {
    const std::string kind = "\"type\": \"sentence_transformers.models.";
    folder_.write("modules.json",
                  "[{\"idx\": 0, \"path\": \"\", " + kind +
                      "Transformer\"}, {\"path\": "
                      "\"1_Pooling\", " +
                      kind + "Pooling\"}" + last + "]");
  }
  TestFolder folder_;
};

TEST_F(UnreadFolders, OthersAreNamed) {
  EXPECT_THAT(told(), IsEmpty());
  folder_.write("onnx/model.onnx", "");
  folder_.write("checkpoint-5/a", "");
  folder_.write(".git/a", "");
  EXPECT_THAT(told(), HasSubstr(": not read: checkpoint-5, onnx\n"));
  EXPECT_THAT(told(), Not(HasSubstr("git")));
}

TEST_F(UnreadFolders, PoolingsAreThoseOfEvalEmbedOrWarnings) {
  modules("");
  EXPECT_THAT(of_pooling(R"({"word_embedding_dimension": 8, "pooling_mode_cls_token": false,)"
                         R"( "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": false})"),
              AllOf(HasSubstr("1_Pooling is not read: it takes the mean of all tokens, and so does "
                              "tessera eval embed (--pooling mean, the default)"),
                    Not(HasSubstr("warning")),
                    Not(HasSubstr(": not read: "))));
  EXPECT_THAT(of_pooling(R"({"pooling_mode_cls_token": true})"),
              HasSubstr("it takes the first token; give tessera eval embed --pooling cls"));
  EXPECT_THAT(of_pooling(R"({"pooling_mode": "cls"})"), HasSubstr("--pooling cls"));
  const auto expect_lacking = [&](const std::string& config, const std::string& mode) {
    EXPECT_THAT(of_pooling(config),
                AllOf(HasSubstr("warning"),
                      HasSubstr("its pooling_mode is " + mode +
                                "; tessera eval embed does not have it: --pooling mean, cls")));
  };
  expect_lacking(R"({"pooling_mode_max_tokens": true})", "max_tokens");
  expect_lacking(R"({"pooling_mode_weightedmean_tokens": true})", "weightedmean_tokens");
  expect_lacking(R"({"pooling_mode": "lasttoken"})", "lasttoken");
  expect_lacking(R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})",
                 "cls_token and mean_tokens");
  expect_lacking("{}", "not said");
}

TEST_F(UnreadFolders, ModulesThatChangeVectorsAreWarnings) {
  const std::string kind = "\"type\": \"sentence_transformers.models.";
  // An empty folder is often missing.
  modules(", {\"path\": \"2_Normalize\", " + kind + "Normalize\"}");
  EXPECT_THAT(of_pooling(R"({"pooling_mode_mean_tokens": true})"),
              AllOf(HasSubstr("2_Normalize is not read: it scales vectors to a length of 1"),
                    Not(HasSubstr("warning"))));
  modules(", {\"path\": \"2_Dense\", " + kind + "Dense\"}");
  folder_.write("2_Dense/config.json", "{}");
  EXPECT_THAT(told(),
              AllOf(HasSubstr("warning"),
                    HasSubstr("2_Dense is not read: it is a module \"Dense\" of "
                              "sentence-transformers, and tessera eval embed gives vectors "
                              "without it")));
  folder_.write("modules.json", "[{\"path\": 1}]");
  EXPECT_THAT(told(), HasSubstr("modules.json is damaged"));
}

}  // namespace unread_folders_test
}  // namespace tessera
