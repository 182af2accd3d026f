import { Component, CUSTOM_ELEMENTS_SCHEMA, input, signal } from '@angular/core';
import { FormControl, FormGroup, ReactiveFormsModule } from '@angular/forms';

@Component({
  selector: 'sign-in',
  imports: [ReactiveFormsModule],
  schemas: [CUSTOM_ELEMENTS_SCHEMA],
  template: `<form method="post" action="/sign-in" [formGroup]="form" (ngSubmit)="submit()">
    <send-code ngDefaultControl formControlName="proof" required public-key="pk_your_public_key" [attr.purpose]="purpose()"
      (wrong)="wrong.set(wrong() + 1)"></send-code>
    <button>Sign in</button> @if (wrong() > 1) { <a href="/help">Can't find the code?</a> }
  </form>`,
})
export class SignIn {
  readonly purpose = input.required<string>();
  readonly onProof = input.required<(proof: string) => Promise<boolean>>();
  readonly wrong = signal(0);
  readonly form = new FormGroup({ proof: new FormControl('', { nonNullable: true }) });

  async submit() {
    if (await this.onProof()(this.form.controls.proof.value) === false) this.form.reset(); // your server refused it: the card begins anew
  }
}
