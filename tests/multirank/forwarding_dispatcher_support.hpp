#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "tessera/dispatcher.hpp"

namespace tessera::testing {

/// A dispatcher that leaves all work to another one; mutants override what they do wrong.
class ForwardingDispatcher : public TokenDispatcher {
 public:
  explicit ForwardingDispatcher(std::shared_ptr<TokenDispatcher> inner)
      : inner_(std::move(inner)) {}

  ExpertRows preprocess(Context& cx,
                        Bundle& bundle,
                        const Tensor& x,
                        const Routing& routing) const override {
    return inner_->preprocess(cx, bundle, x, routing);
  }
  std::vector<HostSlot> reads() const override { return inner_->reads(); }
  Shapes shapes() const override { return inner_->shapes(); }
  ExpertRows dispatch(Context& cx,
                      Bundle& bundle,
                      const ExpertRows& rows,
                      const Meanwhile& meanwhile) const override {
    return inner_->dispatch(cx, bundle, rows, meanwhile);
  }
  Tensor counts(const Bundle& bundle) const override { return inner_->counts(bundle); }
  Tensor combine(Context& cx,
                 Bundle& bundle,
                 const Tensor& y,
                 const Meanwhile& meanwhile) const override {
    return inner_->combine(cx, bundle, y, meanwhile);
  }
  Tensor unpermute(Context& cx, Bundle& bundle, const Tensor& y) const override {
    return inner_->unpermute(cx, bundle, y);
  }

 private:
  std::shared_ptr<TokenDispatcher> inner_;
};

}  // namespace tessera::testing
