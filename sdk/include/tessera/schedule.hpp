#pragma once
#include <string_view>
#include <vector>

#include "tessera/base/identified.hpp"
#include "tessera/schema.hpp"

namespace tessera {

/// The pipeline as one rank sees it.
struct PipelineShape {
  int ranks = 1;   ///< in the pipeline group (p)
  int rank = 0;    ///< this one
  int chunks = 1;  ///< model chunks on each rank (v)
  int microbatches = 1;
  bool training = true;  ///< false: forward only
  /// Parts of the model, p·v: one for each chunk of each rank.
  int virtual_stages() const { return ranks * chunks; }
};

/// One compute action of a schedule. F and B are whole passes; Bi and Bw are B split into its input
/// and weight halves.
struct Action {
  enum Kind : u8 { F, B, Bi, Bw } kind = F;
  int microbatch = 0;
  int chunk = 0;  ///< of this rank, 0 … v - 1
  bool operator==(const Action&) const = default;
};

/// Position of a chunk in the model: virtual stage s holds the layers after stage s - 1, s < p·v.
struct Place {
  int stage = 0;
};

struct ScheduleArguments {
  i64 pipeline = 1;  ///< size of the pipeline group
};

/// The order in which one pipeline rank computes. Plugin kind "schedule". Pure functions of the
/// shape: no communication, no memory, no layers; the kernel lowers, verifies, draws and runs it.
class TESSERA_API PipelineSchedule : public Identified {
 public:
  static constexpr std::string_view kKind = "schedule";
  using Arguments = ScheduleArguments;

  ~PipelineSchedule() override;
  /// Model chunks on each rank.
  int chunks() const;
  /// Where chunk `chunk` of rank `rank` sits; by default loops: stage = chunk · p + rank.
  Place place(const PipelineShape& shape, int rank, int chunk) const;
  /// Most microbatches of `chunk` that are live at once on this rank (F done, last half not). By
  /// default counted along order(): exact. The verifier holds the plan to it.
  int live(const PipelineShape& shape, int chunk) const;
  /// Forwards before the steady state. By default those that lead order(), without the one that
  /// the first backward pairs with when more follow. For people and reports, and for overlaps().
  int warmup(const PipelineShape& shape) const;
  /// Do forward and backward passes overlap? Then each F of order() after the first warmup() ones
  /// that a B of another microbatch follows makes a pair with it: their phases are interleaved, so
  /// that exchanges of one hide behind what the other computes. For other ranks a pair is one
  /// action: it waits for both inputs, and both results are sent after it. For training only.
  bool overlaps() const;
  /// Every (microbatch, chunk) once, in this rank's order.
  std::vector<Action> order(const PipelineShape& shape) const;

 protected:
  // What a schedule that overrides one of these may fall back on.
  virtual Place do_place(const PipelineShape& shape, int rank, int chunk) const;
  virtual int do_live(const PipelineShape& shape, int chunk) const;
  virtual int do_warmup(const PipelineShape& shape) const;

 private:
  virtual int do_chunks() const { return 1; }
  virtual bool do_overlaps() const { return false; }
  virtual std::vector<Action> do_order(const PipelineShape& shape) const = 0;
};

/// Most microbatches of a chunk that are live at once along an order: from F to the end of B or of
/// both halves; without training from F to its end.
TESSERA_API int live_peak(const std::vector<Action>& order, int chunk, bool training);

}  // namespace tessera
