#pragma once
#include <vector>

#include "muon_ops.hpp"
#include "tessera/optimizer.hpp"

namespace tessera {

/// Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks": the momentum of a
/// matrix is orthogonalised by five Newton-Schulz iterations. Embeddings, the head, biases and
/// norms are updated by AdamW. Steps of matrices are scaled by 0.2 · sqrt(larger side) (Liu et al.
/// 2025, "Muon is Scalable for LLM Training", §2.2), so that one learning rate serves both.
///
/// A fused matrix (query, key and value) is orthogonalised as one.
class Muon final : public UpdateRule {
 public:
  struct Config {
    double momentum = 0.95, weight_decay = 0.01;
    i64 iterations = 5;
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    static void describe(Schema<Config>& s);
  };
  Muon(const Config& config, RuleArguments& arguments);

  /// The first moment of a matrix is its momentum; the second stays zero.
  std::vector<StateSpec> state() const override { return {{"first_moment"}, {"second_moment"}}; }
  Needs needs() const override { return Needs::whole_matrix; }
  double weight_decay() const override { return config_.weight_decay; }
  void update(Context& cx, const Shards& shards, const Tensor& scalars) const override;

 private:
  void update_matrix(Context& cx, const Shards& shards, std::size_t i, const Tensor& scalars) const;
  void update_elements(Context& cx,
                       const Shards& shards,
                       std::size_t i,
                       const Tensor& scalars) const;
  /// x [m, n] becomes nearly orthogonal, in place: its singular values come close to 1.
  void orthogonalize(Context& cx, const Tensor& x) const;

  Config config_;
  Operation<MuonMomentumArgs> momentum_;
  Operation<MuonNormalizeArgs> normalize_;
  Operation<MuonCombineArgs> combine_;
  Operation<MuonApplyArgs> apply_;
};

}  // namespace tessera
