#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "head_rows.hpp"
#include "label_loss.hpp"
#include "pooler.hpp"

namespace tessera {

/// BERT's two objectives (Devlin et al. 2019, §3.1; sentence order in the place of next sentence as
/// Lan et al. 2020, §3.1). The loss "lm" is the mean cross entropy over rows with "loss_mask" (u8
/// [n]) against "targets" (i64 [n]); a linear layer, GELU and a norm come before logits, which use
/// the embedding's table. The loss "order" is the mean over samples of two classes against "label"
/// (i64 [samples]), of the pooled first row; "label_mask" (u8 [samples]) says which samples count.
/// Without `pairs` there is no such loss.
class BertHead final : public Layer {
 public:
  struct Config : HeadKeys {
    Auto<i64> predictions;
    bool pairs = true;
    Component<Module> dense{"whole_linear", {}}, dense_norm{"layernorm", {}};
    Component<Module> pooler{"whole_linear", {}}, sentence_order{"whole_linear", {}};
    static void describe(Schema<Config>& s);
  };
  BertHead(const Config& config, BuildContext& build);

 private:
  std::vector<Phase> do_phases() override;
  void add_pairs(const Config& config, BuildContext& build);
  void add_masked_loss(Context& cx, const Tensor& rows, const Bundle& bundle) const;
  void add_order_loss(Context& cx, const Tensor& rows, const Bundle& bundle) const;

  HeadRows rows_;
  Slot targets_, mask_;
  i64 predictions_;
  LossTerm lm_;
  Metric lm_accuracy_;
  std::shared_ptr<Module> dense_, dense_norm_, sentence_order_;
  // None: samples are no pairs.
  std::optional<Pooler> pooler_;
  std::optional<LabelLoss> order_;
  Parameter* weight_;
  Parameter* bias_;
  i64 first_ = 0, valid_ = 0;  // of the vocabulary, on this rank
};

}  // namespace tessera
