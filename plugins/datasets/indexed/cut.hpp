#pragma once
#include "order.hpp"
#include "parts.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// A part cut into samples, each token of it in one. Thread-safe.
class Cut {
 public:
  virtual ~Cut() = default;
  virtual i64 size() const = 0;
  virtual void find(i64 number, Sample& sample) const = 0;
};

/// Windows of `length` tokens that follow each other; a sample is a window and the token after it.
class WindowCut final : public Cut {
 public:
  /// `tail`: what is left after the last window is one more.
  WindowCut(Part part, i64 length, bool tail);
  i64 size() const override { return windows_; }
  void find(i64 number, Sample& sample) const override;

 private:
  Part part_;
  i64 length_, windows_ = 0;
};

}  // namespace tessera
