import { createApp } from 'vue';
import Model from './SignIn.js';

createApp(Model).mount('#app');
