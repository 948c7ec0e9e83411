#pragma once
#include <vector>

#include "tessera/build.hpp"

namespace tessera {

/// How far features turn.
struct RotaryAngles {
  /// Of each pair of features, radians a position. Features beyond the pairs do not turn.
  std::vector<double> frequencies;
  double scale = 1;          ///< of cosines and sines
  bool interleaved = false;  ///< pairs are neighbours; else the halves of what turns (RotaryArgs)
};

/// Rotary positions of an attention layer (Su et al. 2021, "RoFormer"). Plugin kind "rotary". The
/// layer gives the field `head_size`, makes the table of cosines and sines, and turns queries and
/// keys by their rows' positions (ops::rotary). Called while the model is built.
class TESSERA_API Rotary : public Identified {
 public:
  static constexpr std::string_view kKind = "rotary";
  static constexpr bool kStructural = true;
  using Arguments = BuildContext;

  ~Rotary() override;
  RotaryAngles angles() const;

 private:
  virtual RotaryAngles do_angles() const = 0;
};

}  // namespace tessera
