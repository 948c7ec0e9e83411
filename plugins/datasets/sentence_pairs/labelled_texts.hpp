#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "pair_datasets.hpp"
#include "tessera/io/written.hpp"
#include "tessera/schema.hpp"

namespace tessera {

/// The keys of texts of a user's own classes: JSONL whose objects have a text, or two, and a class.
struct LabelledKeys {
  std::vector<std::string> classes;
  std::string text = "text", second, label = "label";
  i64 head_classes = 0;  ///< 0: not known

  /// Throws ConfigError, which begins with `key`, for fewer than two classes, one that is empty or
  /// named twice, and where the head has another number of them.
  PairTask task(std::string_view key) const;
};
template <class C>
void describe_labelled(Schema<C>& s, FromRun from = {}) {
  s.field("classes",
          &C::classes,
          "what the label may be: a text, or true, false or a whole number; in the order of the "
          "head's scores")
      .from(from.path("data.classes"))
      .required();
  const auto field = [&](const char* name, std::string C::*member, const char* doc) {
    const std::string path = std::string("data.") + name, initial = C().*member;
    s.field(name, member, initial.empty() ? doc : from.text(doc, quote(initial)))
        .from(from.path(path.c_str()));
  };
  field("text", &C::text, "the field that has the text");
  field("second", &C::second, "the field that has a second text beside it; empty: there is none");
  field("label", &C::label, "the field that has the class");
  s.field("head_classes", &C::head_classes, "how many classes the model's head tells apart; 0: any")
      .from("model.head.classes")
      .at_least(0)
      .at_most(kMostFeatures);
}

/// Dataset `classes`.
class ClassesDataset final : public TaskDataset {
 public:
  struct Config : TaskKeys, LabelledKeys {
    static void describe(Schema<Config>& s);
  };
  ClassesDataset(const Config& config, DatasetArguments& arguments);
};

}  // namespace tessera
