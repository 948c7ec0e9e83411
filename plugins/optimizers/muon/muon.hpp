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
/// The weights of experts are updated by AdamW, too. All experts of a layer are one parameter,
/// [experts, in, out], and an iteration takes a parameter as one matrix.
///
/// A fused matrix (query, key and value) is orthogonalised as one. A matrix that tensor parallelism
/// cuts is gathered, so each rank of the group orthogonalises it whole and keeps its part. Its rows
/// (or columns) then lie in the order of the ranks, which is not that of the logical matrix where
/// sections are cut, and padding is in it; neither matters, because a permutation and rows of zeros
/// go through the iteration as they are.
class Muon final : public UpdateRule {
 public:
  struct Config {
    double momentum = 0.95, weight_decay = 0.01;
    i64 iterations = 5;
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    static void describe(Schema<Config>& s);
  };
  Muon(const Config& config, RuleArguments& arguments);

  static constexpr bool kWholeParameters = true;

  /// A matrix has a momentum, all else the two moments of AdamW. The names differ, so that no run
  /// takes one for the other.
  std::vector<StateSpec> do_state() const override;
  double do_weight_decay() const override { return config_.weight_decay; }
  void do_update(Context& cx, const Shards& shards, const Tensor& scalars) const override;

 private:
  void update_matrices(Context& cx, const Shards& shards, const Tensor& scalars) const;
  void update_elements(Context& cx, const Shards& shards, const Tensor& scalars) const;
  /// This rank's part of a matrix, in place, becomes that of the orthogonalised one.
  void orthogonalize_part(Context& cx, const Parameter& parameter, const Tensor& part) const;
  /// x [m, n] becomes nearly orthogonal, in place: its singular values come close to 1.
  void orthogonalize(Context& cx, const Tensor& x) const;

  Config config_;
  Operation<MuonMomentumArgs> momentum_;
  Operation<MuonNormalizeArgs> normalize_;
  Operation<MuonCombineArgs> combine_;
  Operation<MuonApplyArgs> apply_;
};

}  // namespace tessera
