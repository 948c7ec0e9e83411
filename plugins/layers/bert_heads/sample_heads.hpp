#pragma once
#include <memory>
#include <vector>

#include "head_rows.hpp"
#include "label_loss.hpp"
#include "pooler.hpp"
#include "tessera/model.hpp"

namespace tessera {

/// Classes of samples: dropout and a linear layer of the pooled first row (Devlin et al. 2019,
/// §4.1). The loss "label" is the mean over samples of their cross entropy against "label" (i64
/// [samples]); "label_mask" (u8 [samples]) says which count. When evaluating, a logit a class is in
/// Model::kScoresSlot.
class ClassificationHead final : public Layer {
 public:
  struct Config : HeadKeys {
    i64 classes = 2;
    double dropout = 0;
    Component<Module> pooler{"whole_linear", {}}, linear{"whole_linear", {}};
    static void describe(Schema<Config>& s);
  };
  ClassificationHead(const Config& config, BuildContext& build);

 private:
  std::vector<Phase> do_phases() override;

  HeadRows rows_;
  Pooler pooler_;
  Slot row_ids_, scores_;
  double dropout_;
  u64 key_;
  LabelLoss loss_;
  std::shared_ptr<Module> linear_;
};

/// One of several choices (Devlin et al. 2019, §4.4). A sample is as many equal parts as there are
/// choices, which do not see each other; each has one logit, of its pooled first row. The loss
/// "label" is the mean over samples of the cross entropy over their choices; fields and scores are
/// those of ClassificationHead.
class ChoiceHead final : public Layer {
 public:
  struct Config : HeadKeys {
    i64 choices = 4;
    double dropout = 0;
    Component<Module> pooler{"whole_linear", {}}, linear{"whole_linear", {}};
    static void describe(Schema<Config>& s);
  };
  ChoiceHead(const Config& config, BuildContext& build);

 private:
  std::vector<Phase> do_phases() override;
  /// [samples, choices], on each rank.
  Tensor logits(Context& cx, const Tensor& rows, const Tensor& row_ids) const;

  HeadRows rows_;
  Pooler pooler_;
  Slot row_ids_, scores_;
  i64 choices_;
  double dropout_;
  u64 key_;
  LabelLoss loss_;
  std::shared_ptr<Module> linear_;
  std::vector<i64> here_, places_;  // choices that begin on this rank, and where
};

/// Where an answer begins and ends (Devlin et al. 2019, §4.2): two logits a token, each softmax
/// over the tokens of a sample with "answerable" (u8 [n]). The loss "span" is the mean over samples
/// and both ends of the cross entropy against "answer" (i64 [samples, 2]: the positions of the
/// first and the last token); "answer_mask" (u8 [samples, 2]) says which count. When evaluating,
/// Model::kScoresSlot has all logits of the first token, then all of the last.
class SpanHead final : public Layer {
 public:
  struct Config : HeadKeys {
    Component<Module> linear{"whole_linear", {}};
    static void describe(Schema<Config>& s);
  };
  SpanHead(const Config& config, BuildContext& build);

 private:
  std::vector<Phase> do_phases() override;
  /// [samples · 2, positions], on each rank.
  Tensor logits(Context& cx, const Tensor& rows, const Tensor& answerable) const;

  HeadRows rows_;
  Slot answerable_, scores_;
  LabelLoss loss_;
  std::shared_ptr<Module> linear_;
};

/// Has no loss: when evaluating, Model::kScoresSlot has the row of each token of a sample, as the
/// last block leaves it (after the norm of order "pre").
class TokenRows final : public Layer {
 public:
  struct Config : HeadKeys {
    static void describe(Schema<Config>& s) { HeadKeys::describe(s); }
  };
  TokenRows(const Config& config, BuildContext& build)
      : rows_(config, build), scores_(build.slot(Model::kScoresSlot)) {}

 private:
  std::vector<Phase> do_phases() override;

  HeadRows rows_;
  Slot scores_;
};

}  // namespace tessera
