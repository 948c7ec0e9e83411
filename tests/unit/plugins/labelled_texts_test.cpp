// Dataset `classes`: texts of a user's own classes.
#include <gmock/gmock.h>

#include "tests/unit/plugins/sentence_pairs.hpp"

namespace tessera {
namespace labelled_texts_test {

using ::testing::ElementsAre;

constexpr auto kTrain = SampleSet::train;
constexpr auto kValidation = SampleSet::validation;

class LabelledTexts : public TaskDatasets {
 protected:
  // un 5, ##aff 6, ##able 7, is 8, it 9, not 10
  LabelledTexts() : TaskDatasets("un ##aff ##able is it not") {}
};

const std::string kClasses = "classes = [\"cat\", \"7\", \"true\"]\n";

TEST_F(LabelledTexts, TextsOfYourOwnClasses) {
  const std::string lines = R"({"text": "unaffable", "label": "cat", "more": 1})"
                            "\n\n"
                            R"({"label": 7, "text": "is it not it is it not"})"
                            "\n"
                            R"({"label": true, "text": "it"})";
  const auto data = open("classes", both("c.jsonl", lines) + kClasses);
  ASSERT_EQ(data->size(kValidation), 3);
  auto sample = read_fields_of(*data, kValidation, 0, 8);
  EXPECT_THAT(sample["tokens"], ElementsAre(2, 5, 6, 7, 3, 0, 0, 0));
  EXPECT_THAT(sample["segments"], ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(sample["last"], ElementsAre(4, 4, 4, 4, 4, -1, -1, -1));
  EXPECT_THAT(sample["label"], ElementsAre(0));
  sample = read_fields_of(*data, kValidation, 1, 8);
  EXPECT_THAT(sample["tokens"], ElementsAre(2, 8, 9, 10, 9, 8, 9, 3));  // cut before [SEP]
  EXPECT_THAT(sample["last"], ElementsAre(7, 7, 7, 7, 7, 7, 7, 7));
  EXPECT_THAT(sample["label"], ElementsAre(1));
  EXPECT_THAT(read_fields_of(*data, kValidation, 2, 8)["label"], ElementsAre(2));
  EXPECT_EQ(data->content(kValidation).unit, "texts");
  EXPECT_EQ(data->content(kValidation).tokens, 5 + 8 + 3);
  EXPECT_EQ(files_.plain(data->origin(kValidation, 1)), "c.jsonl:3");
}

TEST_F(LabelledTexts, PairsOfYourOwnClassesAndFieldsOfOtherNames) {
  const std::string keys = key("c.jsonl", R"({"a": "it", "b": "is", "of": "no"})") +
                           "text = \"a\"\nsecond = \"b\"\nlabel = \"of\"\n";
  const auto data = open("classes", keys + "classes = [\"yes\", \"no\"]\n");
  auto sample = read_fields_of(*data, kTrain, 0, 8);
  EXPECT_THAT(sample["tokens"], ElementsAre(2, 9, 3, 8, 3, 0, 0, 0));
  EXPECT_THAT(sample["segments"], ElementsAre(0, 0, 0, 1, 1, 0, 0, 0));
  EXPECT_THAT(sample["label"], ElementsAre(1));
  const auto others = open("classes", keys + "classes = [\"no\", \"yes\"]\n");
  EXPECT_NE(data->fingerprint(), others->fingerprint());
}

TEST_F(LabelledTexts, LinesAndClassesThatAreWrong) {
  const auto wrong = [&](const std::string& line, const std::string& keys = kClasses) {
    return refused("classes", key("c.jsonl", line) + keys);
  };
  EXPECT_EQ(wrong(R"({"text": "it", "label": "dog"})"),
            "c.jsonl:1: \"label\" is \"dog\", which is none of classes: cat, 7, true");
  EXPECT_EQ(wrong(R"({"text": "it", "label": "7"})"
                  "\n"
                  R"({"text": " \t", "label": 7})"),
            "c.jsonl:2: \"text\" is empty");
  EXPECT_EQ(wrong(R"({"text": "it"})"), "c.jsonl:1: no field \"label\"");
  EXPECT_EQ(wrong(R"({"label": 7})"), "c.jsonl:1: no field \"text\"");
  EXPECT_EQ(wrong(R"({"label": 7, "text": "it"})", kClasses + "second = \"b\"\n"),
            "c.jsonl:1: no field \"b\"");
  EXPECT_EQ(wrong(R"({"text": "it", "label": null})"),
            "c.jsonl:1: \"label\" is null, which is no class: a class is a text, true, false or a "
            "whole number");
  EXPECT_EQ(wrong(R"({"text": "it", "label": 7.0})"),
            "c.jsonl:1: \"label\" is 7.0, which is no class: a class is a text, true, false or a "
            "whole number");
  EXPECT_EQ(wrong("", kClasses + "head_classes = 2\n"),
            "data.classes: there are 3, and model.head.classes = 2");
  EXPECT_EQ(wrong("", "classes = [\"a\", \"\"]\n"), "data.classes: one has no name");
  EXPECT_EQ(wrong("", "classes = [\"a\"]\n"), "data.classes: give two or more");
  EXPECT_EQ(wrong("", "classes = [\"a\", \"b\", \"a\"]\n"), "data.classes: \"a\" is named twice");
  EXPECT_EQ(wrong("\n"), "data.path: c.jsonl has no example");
}

}  // namespace labelled_texts_test
}  // namespace tessera
