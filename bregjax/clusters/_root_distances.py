"""x"""
import numpy as np
from dataclasses import dataclass
OM=0.42
@dataclass(frozen=True)
class RootDistances:
    scale: float
    alpha: float
    beta: float
    @classmethod
    def of(cls, mean):
        tau=np.concatenate([-np.linspace(1e-3,6,3000),-np.linspace(6,40,400)]); r=np.exp(2*tau)
        B=1+r-2*np.sqrt(r)*np.cos(2*OM*tau)
        p=np.linspace(.5,1,65)[:,None]; q=1-p; m=q*r+p
        with np.errstate(all='ignore'): C=(q*r*np.log(r)-m*np.log(m))/(p*q)
        C[-1]=r*np.log(r)-r+1
        inv=1/(C/B).min(1)/(1-1e-5)
        worst=inv/inv[0]; beta=worst[-1]-worst[0]; alpha=np.max(worst[1:]-beta*p[:-1,0])
        return cls(1/np.sqrt(inv[0]),float(alpha),float(beta))
    def points(self, mean):
        root=np.sqrt(mean)*self.scale; phase=OM*np.log(np.maximum(mean,1e-300))
        return np.concatenate([root*np.cos(phase),root*np.sin(phase)],1)
