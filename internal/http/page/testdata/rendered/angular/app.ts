import '@angular/compiler'; // links the libraries, which the command line tool does at the build
import { afterNextRender, Component, EnvironmentProviders, provideZonelessChangeDetection, signal } from '@angular/core';
import { bootstrapApplication, BootstrapContext, provideClientHydration } from '@angular/platform-browser';
import { SignIn } from './sign-in';

@Component({ selector: 'app-root', imports: [SignIn], template: '<sign-in [purpose]="purpose()" [onProof]="onProof" />' })
class App {
  readonly purpose = signal('default');
  readonly onProof = async (proof: string) => { Object.assign(window, { proof }); return (window as any).accepts; };
  constructor() {
    afterNextRender(() => Object.assign(window, { change: (to: string) => this.purpose.set(to) })); // once it is hydrated
  }
}

export const start = (context?: BootstrapContext, ...more: EnvironmentProviders[]) =>
  bootstrapApplication(App, { providers: [provideZonelessChangeDetection(), provideClientHydration(), ...more] }, context);
